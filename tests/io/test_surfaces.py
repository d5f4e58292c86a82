"""Surfaces of GIFTI and of FreeSurfer: where their vertices are, against nibabel's and MRtrix3's geometry."""

import base64
import re
import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from meshes import LIA, fields, footer, icosphere, save_freesurfer, save_gifti

from tistreamlines.errors import InputError
from tistreamlines.io.surfaces import load_surface

VERTICES, TRIANGLES = icosphere(1, 20.0, (3, -4, 5))
CENTRE = np.array([1.5, -20.25, 30.75])
TURN = nib.eulerangles.euler2mat(0.2, -0.3, 0.1)
UNKNOWN, SCANNER, TALAIRACH = 0, 1, 3
WORKBENCH = {"ProgramProvenance": "Connectome Workbench\nType: Command Line Application"}


def volume(centre=CENTRE, axes=LIA):
    """The header of the volume from which a surface was made."""
    header = nib.freesurfer.MGHImage(np.zeros((4, 6, 8), np.float32), np.eye(4)).header
    header["delta"], header["Mdc"], header["Pxyz_c"] = [1.5, 1.0, 2.0], np.asarray(axes).T, centre
    return header


def to_scanner(header):
    """From tkRAS to the scanner's space, by nibabel."""
    return header.get_affine() @ np.linalg.inv(header.get_vox2ras_tkr())


class Told(list):
    """What is told."""

    def __call__(self, text):
        self.append(text)


def loaded(path, space="auto"):
    """A surface, its notes and its warnings."""
    note, warn = Told(), Told()
    surface = load_surface(path, space, note, warn)
    assert np.array_equal(surface.triangles, TRIANGLES)
    return surface.vertices, note, warn


def moved(axes=LIA):
    return nib.affines.apply_affine(to_scanner(volume(axes=axes)), VERTICES)


@pytest.mark.parametrize("axes", [LIA, TURN @ LIA, np.diag([-1.0, 1, 1])], ids=["LIA", "turned", "LAS"])
class TestTkRas:
    def test_freesurfer(self, tmp_path, axes):
        path = save_freesurfer(tmp_path / "lh.white", VERTICES, TRIANGLES, footer(CENTRE, axes))
        for space in ("auto", "tkras"):
            vertices, note, warn = loaded(path, space)
            assert np.abs(vertices - moved(axes)).max() < 2e-5
            assert len(note) == 1
            assert "c_ras = (1.50, -20.25, 30.75)" in note[0]
            assert not warn
        assert np.abs(loaded(path, "scanner")[0] - VERTICES).max() < 1e-5

    def test_gifti(self, tmp_path, axes):
        """Of FreeSurfer before 7.4, with a matrix to the Talairach space."""
        system = UNKNOWN, TALAIRACH, np.diag([1.1, 1.2, 1.1, 1])
        path = save_gifti(tmp_path / "lh.white.surf.gii", VERTICES, TRIANGLES, fields(CENTRE, axes), system)
        vertices, _, warn = loaded(path)
        assert np.abs(vertices - moved(axes)).max() < 1e-4
        assert len(warn) == 1
        assert "does not say in which space" in warn[0]
        vertices, note, warn = loaded(path, "tkras")
        assert np.abs(vertices - moved(axes)).max() < 1e-4
        assert (len(note), len(warn)) == (1, 0)
        assert np.abs(loaded(path, "scanner")[0] - VERTICES).max() < 1e-5

    def test_gifti_with_a_matrix(self, tmp_path, axes):
        """Of FreeSurfer from 7.4 on."""
        system = UNKNOWN, SCANNER, to_scanner(volume(axes=axes))
        path = save_gifti(tmp_path / "lh.white.surf.gii", VERTICES, TRIANGLES, fields(CENTRE, axes), system)
        for space in ("auto", "tkras"):
            vertices, note, warn = loaded(path, space)
            assert np.abs(vertices - moved(axes)).max() < 1e-4
            assert (len(note), len(warn)) == (1, 0)


@pytest.mark.skipif(shutil.which("meshconvert") is None, reason="MRtrix3's meshconvert is not installed")
def test_mrtrix_moves_surfaces_alike(tmp_path):
    """By the header of the volume, which it asks for."""
    path = save_freesurfer(tmp_path / "lh.white", VERTICES, TRIANGLES, footer(CENTRE))
    header = volume()
    image = nib.freesurfer.MGHImage(np.zeros((4, 6, 8), np.float32), header.get_affine(), header)
    nib.save(image, tmp_path / "orig.mgz")
    words = ["meshconvert", path, tmp_path / "a.vtk", "-transform", "fs2real", tmp_path / "orig.mgz", "-quiet"]
    subprocess.run(list(map(str, words)), check=True, capture_output=True, timeout=60)
    text = (tmp_path / "a.vtk").read_text()
    count, rest = re.search(r"POINTS (\d+) \w+\n(.*)", text, re.DOTALL).groups()
    theirs = np.array(rest.split()[: 3 * int(count)], float).reshape(-1, 3)
    assert np.abs(load_surface(path).vertices - theirs).max() < 1e-3


class TestScanner:
    """Vertices that are in RASmm already."""

    def test_freesurfer_to_scanner(self, tmp_path):
        path = save_freesurfer(tmp_path / "lh.white", VERTICES, TRIANGLES, footer(CENTRE), scanner=True)
        vertices, note, warn = loaded(path)
        assert np.abs(vertices - VERTICES).max() < 1e-5
        assert not note + warn

    @pytest.mark.parametrize("system", [
        None, (UNKNOWN, UNKNOWN, None), (TALAIRACH, TALAIRACH, None), (SCANNER, SCANNER, None),
        (SCANNER, UNKNOWN, np.diag([2, 2, 2, 1])),
    ])
    @pytest.mark.parametrize("meta", [{}, fields((0, 0, 0)), fields(CENTRE)])
    def test_gifti(self, tmp_path, system, meta):
        path = save_gifti(tmp_path / "white.surf.gii", VERTICES, TRIANGLES, meta, system)
        vertices, note, warn = loaded(path)
        in_scanner = system is not None and system[0] == SCANNER
        stays = in_scanner or meta != fields(CENTRE)
        assert (np.abs(vertices - VERTICES).max() < 1e-5) == stays
        assert len(warn) == (not stays)
        assert len(note) == (not in_scanner and meta != fields((0, 0, 0)))
        assert not loaded(path, "scanner")[1]

    def test_a_matrix_that_reflects_turns_the_triangles_round(self, tmp_path):
        system = UNKNOWN, SCANNER, np.diag([-1.0, 1, 1, 1])
        surface = load_surface(save_gifti(tmp_path / "white.surf.gii", VERTICES, TRIANGLES, {}, system))
        assert np.abs(surface.vertices - VERTICES * [-1, 1, 1]).max() < 1e-5
        assert np.array_equal(surface.triangles, TRIANGLES[:, ::-1])


@pytest.mark.parametrize("encoding", ["ASCII", "B64BIN", "B64GZ"])
def test_encodings(tmp_path, encoding):
    path = save_gifti(tmp_path / "white.gii", VERTICES, TRIANGLES, encoding=encoding)
    assert np.abs(loaded(path)[0] - VERTICES).max() < 1e-4


def test_big_endian(tmp_path):
    path = save_gifti(tmp_path / "white.gii", VERTICES, TRIANGLES, encoding="B64BIN")
    text = path.read_text()
    for values in (VERTICES.astype("<f4"), TRIANGLES.astype("<i4")):
        little, big = (base64.b64encode(array.tobytes()).decode() for array in (values, values.byteswap()))
        assert little in text
        text = text.replace(little, big)
    path.write_text(text.replace("LittleEndian", "BigEndian"))
    assert np.abs(loaded(path)[0] - VERTICES).max() < 1e-5


def changed(where, value):
    vertices = VERTICES.copy()
    vertices[where] = value
    return vertices


class TestRefused:
    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ({"info": None}, r"has no valid geometry of its volume.* to-scanner .* surface_space scanner"),
            ({"info": footer(CENTRE, valid="0  # volume info invalid")}, "has no valid geometry of its volume"),
            ({"info": footer(CENTRE, np.ones((3, 3)))}, r".* axes that are not orthogonal unit vectors; say with"),
            ({"vertices": changed(7, np.nan)}, "vertex 7 is .nan, nan, nan.; 1 of 42 vertices are not finite"),
            ({"vertices": changed((slice(3, 5), 1), 2e6)}, r"vertex 3 is .*; 2 of 42 vertices"),
            ({"triangles": TRIANGLES + 1}, r"triangle \d+ is of the vertices .*42.* vertices 0 to 41; \d triangles"),
            ({"triangles": TRIANGLES - 1}, r"triangle \d+ is of the vertices .*-1"),
        ],
    )
    def test_freesurfer(self, tmp_path, content, words):
        known = {"vertices": VERTICES, "triangles": TRIANGLES, "info": footer(CENTRE)} | content
        with pytest.raises(InputError, match=f"lh.white: {words}") as raised:
            load_surface(save_freesurfer(tmp_path / "lh.white", **known))
        assert "\n" not in str(raised.value)

    def test_what_is_cut_short(self, tmp_path):
        path = save_freesurfer(tmp_path / "lh.white", VERTICES, TRIANGLES, footer(CENTRE))
        content = path.read_bytes()
        for end in (2, 30, 300, len(content) - 300):
            path.write_bytes(content[:end])
            with pytest.raises(InputError, match=r"lh\.white: "):
                load_surface(path)
        gifti = save_gifti(tmp_path / "white.gii", VERTICES, TRIANGLES)
        gifti.write_bytes(gifti.read_bytes()[:900])
        with pytest.raises(InputError, match=r"white\.gii: cannot be read"):
            load_surface(gifti)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ({"meta": fields(CENTRE), "system": (0, 1, np.eye(4))}, r"matrix .* VolGeom fields differ; say with"),
            ({"meta": fields(CENTRE), "about": WORKBENCH}, "Workbench has written it"),
            ({"meta": {"VolGeomC_R": "3"}}, r"VolGeom fields are not complete \('VolGeomX_R'\); say with surface"),
            ({"meta": fields(CENTRE) | {"VolGeomC_A": "x"}}, "VolGeom fields are not complete"),
            ({"system": (0, 1, np.zeros((4, 4)))}, "matrix to the scanner's space is"),
            ({"meta": {"GeometricType": "Spherical"}}, "is of the shape 'spherical'"),
            ({"vertices": VERTICES[:, :2]}, r"vertices have the shape \(42, 2\)"),
            ({"triangles": TRIANGLES[:, :2]}, r"triangles have the shape \(80, 2\)"),
        ],
    )
    def test_gifti(self, tmp_path, content, words):
        known = {"vertices": VERTICES, "triangles": TRIANGLES} | content
        with pytest.raises(InputError, match=f"white.gii: .*{words}") as raised:
            load_surface(save_gifti(tmp_path / "white.gii", **known))
        assert "\n" not in str(raised.value)

    def test_tkras_without_a_geometry(self, tmp_path):
        with pytest.raises(InputError, match="has no VolGeomC_R and no matrix"):
            load_surface(save_gifti(tmp_path / "white.gii", VERTICES, TRIANGLES), "tkras")

    def test_other_arrays(self, tmp_path):
        path = save_gifti(tmp_path / "thickness.gii", VERTICES, TRIANGLES)
        image = nib.load(path)
        shape = nib.gifti.GiftiDataArray(np.ones(42, np.float32), "NIFTI_INTENT_SHAPE")
        nib.save(nib.gifti.GiftiImage(darrays=[shape, *image.darrays]), path)
        assert len(loaded(path)[0]) == 42
        for arrays, message in (([shape], "0 sets of vertices and 0"), (image.darrays * 2, "2 sets of vertices and 2")):
            nib.save(nib.gifti.GiftiImage(darrays=arrays), path)
            with pytest.raises(InputError, match=message):
                load_surface(path)

    def test_other_files(self, tmp_path):
        (tmp_path / "a.vtk").write_text("# vtk DataFile Version 1.0\n")
        with pytest.raises(InputError, match=r"is neither GIFTI .* nor FreeSurfer's geometry; convert it"):
            load_surface(tmp_path / "a.vtk")
        with pytest.raises(InputError, match="no such file"):
            load_surface(tmp_path / "b.gii")
        for name, shape in (("lh.inflated", "inflated"), ("lh.sphere.reg", "sphere"), ("L_veryinflated", "veryinf")):
            path = save_freesurfer(tmp_path / name, VERTICES, TRIANGLES, footer(CENTRE))
            with pytest.raises(InputError, match=f"{name}: is of the shape '{shape}"):
                load_surface(path)

    def test_several_spaces(self, tmp_path):
        path = save_gifti(tmp_path / "white.gii", VERTICES, TRIANGLES, {}, (UNKNOWN, SCANNER, np.eye(4)))
        system = re.search(r"<CoordinateSystem.*?</CoordinateSystemTransformMatrix>", path.read_text(), re.DOTALL)[0]
        path.write_text(path.read_text().replace(system, system + system.replace("SCANNER_ANAT", "MNI_152")))
        with pytest.raises(InputError, match="names several spaces for its vertices; say with surface_space"):
            load_surface(path)
        assert np.abs(loaded(path, "scanner")[0] - VERTICES).max() < 1e-5

    def test_values_in_another_file(self, tmp_path):
        path = save_gifti(tmp_path / "white.gii", VERTICES, TRIANGLES)
        (tmp_path / "white.data").write_bytes(np.asarray(VERTICES, "<f4").tobytes())
        text = path.read_text().replace('Encoding="GZipBase64Binary"', 'Encoding="ExternalFileBinary"', 1)
        text = text.replace('ExternalFileName=""', 'ExternalFileName="white.data"', 1)
        path.write_text(re.sub(r"<Data>[^<]*</Data>", "<Data></Data>", text, count=1))
        with pytest.raises(InputError, match="its values lie in another file; make it again"):
            load_surface(path)
