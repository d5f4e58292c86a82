// What NiiVue reads: files of streamlines and of spheres.
const tckOf = (offsets, points) => {
  const count = offsets.length - 1;
  const head = ("mrtrix tracks\ndatatype: Float32LE\ncount: " + count + "\nfile: . 128\nEND\n").padEnd(128, " ");
  const buffer = new ArrayBuffer(128 + 4 * (points.length + 3 * count + 3));
  new Uint8Array(buffer).set(new TextEncoder().encode(head));
  const out = new Float32Array(buffer, 128);
  let place = 0;
  for (let i = 0; i < count; i++) {
    const line = points.subarray(3 * offsets[i], 3 * offsets[i + 1]);
    out.set(line, place);
    place += line.length;
    out.fill(NaN, place, place += 3);
  }
  out.fill(Infinity, place);
  return buffer;
};
// triangles of a sphere of radius 1: those of an octahedron, twice divided; and discs, which slices show, in planes of
// two unit vectors each
const trianglesOf = (tangents) => {
  const unit = (p) => { const r = Math.hypot(...p); return p.map((x) => x / r); };
  const middle = (a, b) => unit(a.map((x, i) => x + b[i]));
  let faces = [];
  for (const x of [1, -1]) for (const y of [1, -1]) for (const z of [1, -1]) {
    const face = [[x, 0, 0], [0, y, 0], [0, 0, z]];
    faces.push(x * y * z > 0 ? face : face.reverse());
  }
  for (let i = 0; i < 2; i++) faces = faces.flatMap(([a, b, c]) => {
    const [d, e, f] = [middle(a, b), middle(b, c), middle(c, a)];
    return [[a, d, f], [d, b, e], [f, e, c], [d, e, f]];
  });
  for (const [first, second] of tangents) for (let k = 0; k < 24; k++) {
    const rim = [k, k + 1].map((i) => first.map((x, axis) => x * Math.cos(Math.PI * i / 12) + second[axis] * Math.sin(Math.PI * i / 12)));
    faces.push([[0, 0, 0], rim[0], rim[1]], [[0, 0, 0], rim[1], rim[0]]);
  }
  return faces;
};
const unitSphere = (tangents) => {
  const triangles = trianglesOf(tangents);
  const view = new DataView(new ArrayBuffer(84 + 50 * triangles.length));
  view.setUint32(80, triangles.length, true);
  triangles.forEach((face, i) => [[0, 0, 0], ...face].forEach((corner, k) => corner.forEach((value, axis) => {
    view.setFloat32(84 + 50 * i + 12 * k + 4 * axis, value, true);
  })));
  return view.buffer;
};
