"use strict";
{
  const {connectomes, ramp} = JSON.parse(document.getElementById("connectomes").textContent);
  connectomes.forEach((connectome, k) => { if (connectome.measures.length) drawMatrix(document.getElementById(`connectome-${k}`), connectome, ramp); });
}
