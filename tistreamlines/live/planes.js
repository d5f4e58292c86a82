// Slices: planes of voxels through the crosshair, which tilt where the image does.
const SLICE_AXES = [[0, 1, 2], [0, 2, 1], [1, 2, 0]]; // to the right, up and away of axial, coronal and sagittal slices
// the plane that NiiVue shows and in which it finds clicks: away = at + right * u + up * v, mm
const slicePlane = (viewer, kind) => {
  const [u, v, w, left, up] = viewer.xyMM2xyzMM(kind, viewer.scene.crosshairPos[2 - kind]);
  return { at: w + left * u - up * v, right: -left, up, steep: Math.hypot(1, left, up) };
};
// has NiiVue draw the streamlines near these planes, in the place of those near planes of RASmm
const tiltSlabs = (viewer) => {
  const straight = viewer.calculateMvpMatrix2D.bind(viewer);
  viewer.calculateMvpMatrix2D = (...terms) => {
    const matrices = straight(...terms), [, , , slab, depth, azimuth, elevation] = terms;
    if (!Number.isFinite(slab)) return matrices; // of the slice itself
    const kind = elevation ? 0 : Math.abs(azimuth) === 90 ? 2 : 1, [u, v, w] = SLICE_AXES[kind];
    const { at, right, up, steep } = slicePlane(viewer, kind), matrix = matrices.modelViewProjectionMatrix;
    for (let i = 0; i < 4; i++) { // points move along the line of sight by the plane's distance from that of the crosshair
      const away = matrix[4 * w + i] /= steep;
      matrix[4 * u + i] -= right * away;
      matrix[4 * v + i] -= up * away;
      matrix[12 + i] += (depth * steep - at) * away;
    }
    return matrices;
  };
};
// two unit vectors at right angles in each plane, RASmm
const sliceTangents = (viewer) => SLICE_AXES.map(([u, v, w], kind) => {
  const { right, up } = slicePlane(viewer, kind), first = [0, 0, 0], second = [0, 0, 0];
  const unit = (p) => p.map((x) => x / Math.hypot(...p));
  [first[u], first[w], second[v], second[w]] = [1, right, 1, up];
  const share = right * up / (1 + right * right); // of the first one in the second
  return [unit(first), unit(second.map((x, i) => x - share * first[i]))];
});
