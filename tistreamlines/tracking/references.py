"""References of the direction getters, the models and the parts that every run uses."""

from __future__ import annotations

from ..fit import models

# by the short name printed in tables
REFERENCES = models.REFERENCES | {
    "Berman 2008": "Berman JI, Chung S, Mukherjee P, Hess CP, Han ET, Henry RG. Probabilistic streamline q-ball "
    "tractography using the residual bootstrap. NeuroImage 39, 2008. doi:10.1016/j.neuroimage.2007.08.021",
    "Behrens 2003": "Behrens TEJ, Woolrich MW, Jenkinson M, et al. Characterization and propagation of uncertainty in "
    "diffusion-weighted MR imaging. Magn Reson Med 50, 2003. doi:10.1002/mrm.10609",
    "Behrens 2007": "Behrens TEJ, Johansen-Berg H, Jbabdi S, Rushworth MFS, Woolrich MW. Probabilistic diffusion "
    "tractography with multiple fibre orientations: What can we gain? NeuroImage 34, 2007. "
    "doi:10.1016/j.neuroimage.2006.09.018",
    "Parker 2003": "Parker GJM, Haroon HA, Wheeler-Kingshott CAM. A framework for a streamline-based probabilistic "
    "index of connectivity (PICo) using a structural interpretation of MRI diffusion measurements. J Magn Reson "
    "Imaging 18, 2003. doi:10.1002/jmri.10350",
    "Mori 1999": "Mori S, Crain BJ, Chacko VP, van Zijl PCM. Three-dimensional tracking of axonal projections in the "
    "brain by magnetic resonance imaging. Ann Neurol 45, 1999. "
    "doi:10.1002/1531-8249(199902)45:2<265::AID-ANA21>3.0.CO;2-3",
    "Basser 2000": "Basser PJ, Pajevic S, Pierpaoli C, Duda J, Aldroubi A. In vivo fiber tractography using DT-MRI "
    "data. Magn Reson Med 44, 2000. doi:10.1002/1522-2594(200010)44:4<625::AID-MRM17>3.0.CO;2-O",
    "Tournier 2010": "Tournier JD, Calamante F, Connelly A. Improved probabilistic streamlines tractography by 2nd "
    "order integration over fibre orientation distributions. Proc ISMRM 18, 2010.",
    "Tournier 2012": "Tournier JD, Calamante F, Connelly A. MRtrix: Diffusion tractography in crossing fiber regions. "
    "Int J Imaging Syst Technol 22, 2012. doi:10.1002/ima.22005",
    "Aydogan 2021": "Aydogan DB, Shi Y. Parallel transport tractography. IEEE Trans Med Imaging 40, 2021. "
    "doi:10.1109/TMI.2020.3034038",
    "Smith 2012": "Smith RE, Tournier JD, Calamante F, Connelly A. Anatomically-constrained tractography: improved "
    "diffusion MRI streamlines tractography through effective use of anatomical information. NeuroImage 62, 2012. "
    "doi:10.1016/j.neuroimage.2012.06.005",
    "Smith 2013": "Smith RE, Tournier JD, Calamante F, Connelly A. SIFT: Spherical-deconvolution informed filtering of "
    "tractograms. NeuroImage 67, 2013. doi:10.1016/j.neuroimage.2012.11.049",
    "Smith 2015": "Smith RE, Tournier JD, Calamante F, Connelly A. SIFT2: Enabling dense quantitative assessment of "
    "brain white matter connectivity using streamlines tractography. NeuroImage 119, 2015. "
    "doi:10.1016/j.neuroimage.2015.06.092",
    "Raffelt 2012": "Raffelt D, Tournier JD, Rose S, et al. Apparent fibre density: a novel measure for the analysis "
    "of diffusion-weighted magnetic resonance images. NeuroImage 59, 2012. doi:10.1016/j.neuroimage.2011.10.045",
    "Girard 2014": "Girard G, Whittingstall K, Deriche R, Descoteaux M. Towards quantitative connectivity analysis: "
    "reducing tractography biases. NeuroImage 98, 2014. doi:10.1016/j.neuroimage.2014.04.074",
    "Salmon 2011": "Salmon JK, Moraes MA, Dror RO, Shaw DE. Parallel random numbers: as easy as 1, 2, 3. SC '11, 2011. "
    "doi:10.1145/2063384.2063405",
    "Garyfallidis 2014": "Garyfallidis E, et al. Dipy, a library for the analysis of diffusion MRI data. Front "
    "Neuroinform 8, 2014. doi:10.3389/fninf.2014.00008",
}
OF_OPTIONS = {"sift2": "Smith 2015", "seed_dynamic": "Smith 2015"}
ALWAYS = ("Salmon 2011", "Garyfallidis 2014")
