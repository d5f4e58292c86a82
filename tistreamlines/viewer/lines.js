// The streamlines: a colour for each point, which of them are drawn, and the slab that cuts them.
//
// NiiVue colours by direction, by one value and by groups; here, a function returns the colour of each point, and another
// one which streamlines are drawn. Its meshes take both: the points with a colour in the bits of a fourth number, and
// the order in which they are joined.
const BREAK = 0xffffffff; // between two streamlines
const UNKNOWN_COLOUR = [120, 120, 128];

// Colours are r + 256 g + 65536 b. Streamlines side by side differ a little, as far as the colour means no value.
const packed = (r, g, b) => r + (g << 8) + (b << 16);
const shadeOf = (i) => 1 - 0.22 * ((i * 0.618034) % 1);

const directionColour = (pts, from, to, shade) => {
  const [x, y, z] = [0, 1, 2].map((axis) => Math.abs(pts[3 * to + axis] - pts[3 * from + axis]));
  const scale = 255 * shade / (Math.hypot(x, y, z) || 1);
  return packed(Math.round(x * scale), Math.round(y * scale), Math.round(z * scale));
};

// Ways to colour: each takes points, offsets and an array of colours, which it fills.
const coloursOf = {
  direction: (pts, offsets, out) => {
    for (let i = 0; i + 1 < offsets.length; i++) {
      const first = offsets[i], last = offsets[i + 1] - 1, shade = shadeOf(i);
      for (let k = first; k <= last; k++) out[k] = directionColour(pts, Math.max(k - 1, first), Math.min(k + 1, last), shade);
    }
  },
  ends: (pts, offsets, out) => {
    for (let i = 0; i + 1 < offsets.length; i++) {
      out.fill(directionColour(pts, offsets[i], offsets[i + 1] - 1, shadeOf(i)), offsets[i], offsets[i + 1]);
    }
  },
  // of each streamline, [r, g, b]
  each: (colour) => (pts, offsets, out) => {
    for (let i = 0; i + 1 < offsets.length; i++) out.fill(packed(...colour(i).map((x) => Math.round(x * shadeOf(i)))), offsets[i], offsets[i + 1]);
  },
  values: (numbers, ofPoints, scale) => (pts, offsets, out) => {
    const { lut, low, high } = scale, table = new Uint32Array(256);
    for (let k = 0; k < 256; k++) table[k] = packed(lut[4 * k], lut[4 * k + 1], lut[4 * k + 2]);
    const colour = (value) => Number.isFinite(value) ? table[Math.round(255 * Math.min(Math.max((value - low) / (high - low), 0), 1))] : packed(...UNKNOWN_COLOUR);
    if (ofPoints) for (let k = 0; k < out.length; k++) out[k] = colour(numbers[k]);
    else for (let i = 0; i + 1 < offsets.length; i++) out.fill(colour(numbers[i]), offsets[i], offsets[i + 1]);
  },
};

// Tubes around the streamlines whose numbers are in ``chosen``: vertices of five words each (a point, the direction from
// the axis in bytes, a colour), and triangles. NiiVue takes 12 s to make those of 300,000 points, this 0.4 s.
const SIDES = 5;
const tubesOf = (pts, offsets, chosen, colours, radius) => {
  const count = chosen.reduce((sum, i) => sum + offsets[i + 1] - offsets[i], 0);
  const reals = new Float32Array(5 * SIDES * count), words = new Uint32Array(reals.buffer), bytes = new Int8Array(reals.buffer);
  const triangles = new Uint32Array(6 * SIDES * (count - chosen.length));
  const turns = Array.from({ length: SIDES }, (_, j) => [Math.cos(2 * Math.PI * j / SIDES), Math.sin(2 * Math.PI * j / SIDES)]);
  let vertex = 0, corner = 0;
  for (const i of chosen) {
    const first = offsets[i], last = offsets[i + 1] - 1;
    let ux = 0, uy = 0, uz = 0; // across the tube, turned as little as possible from point to point
    for (let k = first; k <= last; k++) {
      const before = 3 * Math.max(k - 1, first), behind = 3 * Math.min(k + 1, last);
      let tx = pts[before] - pts[behind], ty = pts[before + 1] - pts[behind + 1], tz = pts[before + 2] - pts[behind + 2];
      const step = Math.hypot(tx, ty, tz) || 1;
      [tx, ty, tz] = [tx / step, ty / step, tz / step];
      if (k === first) [ux, uy, uz] = Math.abs(tx) < 0.7 ? [1, 0, 0] : [0, 1, 0];
      const along = ux * tx + uy * ty + uz * tz;
      [ux, uy, uz] = [ux - along * tx, uy - along * ty, uz - along * tz];
      const size = Math.hypot(ux, uy, uz) || 1;
      [ux, uy, uz] = [ux / size, uy / size, uz / size];
      const vx = ty * uz - tz * uy, vy = tz * ux - tx * uz, vz = tx * uy - ty * ux;
      for (let j = 0; j < SIDES; j++) {
        const [c, s] = turns[j], nx = c * ux + s * vx, ny = c * uy + s * vy, nz = c * uz + s * vz, place = 5 * (vertex + j);
        reals[place] = pts[3 * k] + radius * nx;
        reals[place + 1] = pts[3 * k + 1] + radius * ny;
        reals[place + 2] = pts[3 * k + 2] + radius * nz;
        bytes[4 * place + 12] = 127 * nx;
        bytes[4 * place + 13] = 127 * ny;
        bytes[4 * place + 14] = 127 * nz;
        words[place + 4] = colours[k];
        if (k === last) continue;
        const next = (j + 1) % SIDES, [a, b] = [vertex + j, vertex + SIDES + j], [d, e] = [vertex + next, vertex + SIDES + next];
        triangles[corner++] = a; triangles[corner++] = b; triangles[corner++] = e;
        triangles[corner++] = a; triangles[corner++] = e; triangles[corner++] = d;
      }
      vertex += SIDES;
    }
  }
  return [reals, triangles];
};

// The same as lines: vertices of a point and a colour, and their order with a mark between two streamlines.
const linesOf = (pts, offsets, chosen, colours) => {
  const reals = new Float32Array(4 * colours.length), words = new Uint32Array(reals.buffer);
  for (let k = 0; k < colours.length; k++) {
    for (let axis = 0; axis < 3; axis++) reals[4 * k + axis] = pts[3 * k + axis];
    words[4 * k + 3] = colours[k];
  }
  const order = new Uint32Array(chosen.reduce((sum, i) => sum + offsets[i + 1] - offsets[i] + 1, 0));
  let place = 0;
  for (const i of chosen) {
    for (let k = offsets[i]; k < offsets[i + 1]; k++) order[place++] = k;
    order[place++] = BREAK;
  }
  return [reals, order];
};

// Takes the place of the colours and the choice of a mesh of streamlines; returns a function that draws both anew.
const takeOver = (mesh, gl, radius) => {
  const { pts, offsetPt0: offsets } = mesh, colours = new Uint32Array(pts.length / 3);
  mesh.updateFibers = () => {}; // NiiVue calls it for its colours
  return (colour, isDrawn, asTubes) => {
    colour(pts, offsets, colours);
    const chosen = [];
    for (let i = 0; i + 1 < offsets.length; i++) if (isDrawn(i)) chosen.push(i);
    mesh.fiberRadius = asTubes ? radius : 0;
    const [vertices, order] = (asTubes ? tubesOf : linesOf)(pts, offsets, chosen, colours, radius);
    mesh.indexCount = order.length;
    gl.bindBuffer(gl.ARRAY_BUFFER, mesh.vertexBuffer);
    gl.bufferData(gl.ARRAY_BUFFER, new Uint8Array(vertices.buffer), gl.STATIC_DRAW);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, mesh.indexBuffer);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, order, gl.STATIC_DRAW);
    return chosen.length;
  };
};

// Makes the shaders of a mesh leave out what lies outside a slab around the crosshair, in the 3-D view alone; the
// thickness of slices is NiiVue's. Returns a function that sets the axis, null for none, and the thickness in mm.
const cutBySlab = (viewer, mesh) => {
  const gl = viewer.gl, head = "uniform vec4 slab;\n", cut = "\n\tif (abs(dot(slab.xyz, vP.xyz) - slab.w) > 1.0) discard;";
  const phong = viewer.meshShaders.find((shader) => shader.Name === "Phong").Frag;
  const tubes = phong.replace("in vec4 vClr;", "in vec4 vClr;\nin vec4 vP;\n" + head).replace("void main() {", "void main() {" + cut)
    .replace("ambient = 0.35", "ambient = 0.5"); // so that colours look like those of the scale
  mesh.meshShaderIndex = viewer.setCustomMeshShader(tubes, "Slab");
  const Shader = viewer.fiberShader.constructor;
  viewer.fiberShader = new Shader(gl,
    "#version 300 es\nlayout(location=0) in vec3 pos;\nlayout(location=1) in vec4 clr;\nout vec4 vClr;\nout vec4 vP;\nuniform mat4 mvpMtx;\n" +
    "void main(void) {\n\tgl_Position = mvpMtx * vec4(pos, 1.0);\n\tvClr = clr;\n\tvP = vec4(pos, 1.0);\n}",
    "#version 300 es\nprecision highp float;\nin vec4 vClr;\nin vec4 vP;\nout vec4 color;\nuniform float opacity;\n" + head +
    "void main() {" + cut + "\n\tcolor = vec4(vClr.rgb, opacity);\n}");
  let axis = null, half = 1;
  const drawMeshes = viewer.drawMesh3D.bind(viewer);
  viewer.drawMesh3D = (depth, alpha, view, model, normal, isSlice) => {
    const slab = [0, 0, 0, 0];
    if (axis !== null && !isSlice) {
      slab[axis] = 1 / half;
      slab[3] = viewer.frac2mm(viewer.scene.crosshairPos, 0, true)[axis] / half;
    }
    for (const shader of [viewer.meshShaders[mesh.meshShaderIndex].shader, viewer.fiberShader]) {
      shader.use(gl);
      gl.uniform4fv(shader.uniforms.slab, slab);
    }
    return drawMeshes(depth, alpha, view, model, normal, isSlice);
  };
  return (newAxis, thickness) => {
    [axis, half] = [newAxis, thickness / 2];
    viewer.opts.meshThicknessOn2D = half;
  };
};
