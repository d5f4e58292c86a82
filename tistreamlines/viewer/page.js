const facts = JSON.parse(document.getElementById("facts").textContent);
const at = (id) => document.getElementById(id);
const controls = at("controls").elements;
const canvas = at("scene");
const bytesOf = (id) => Uint8Array.from(atob(at(id).textContent), (c) => c.charCodeAt(0)).buffer;
const tell = (text) => {
  at("problem").textContent = text;
  at("problem").hidden = !text;
};
const viewer = new Niivue({
  logLevel: "error", show3Dcrosshair: false, isSliceMM: true, backColor: [0, 0, 0, 1], fontColor: [0.85, 0.85, 0.9, 1],
  crosshairColor: [0.95, 0.75, 0.2, 1], crosshairWidth: 0.15, crosshairWidthUnit: "percent", clipPlaneColor: [0, 0, 0, 0],
  dragAndDropEnabled: false, multiplanarShowRender: 1, multiplanarForceRender: true, loadingText: "",
  clipPlaneHotKey: "", cycleClipPlaneHotKey: "", viewModeHotKey: "",
});

// ---------------------------------------------------------------------------------------------------------- groups
// colours that differ as far as those before them leave room
const colourOf = (i) => {
  const hue = (i * 137.508) % 360, light = [0.55, 0.7, 0.42][Math.floor(i / 12) % 3];
  return [0, 8, 4].map((k) => {
    const x = (k + hue / 30) % 12;
    return Math.round(255 * (light - 0.7 * Math.min(light, 1 - light) * Math.max(-1, Math.min(x - 3, 9 - x, 1))));
  });
};
const hex = (colour) => "#" + colour.map((x) => x.toString(16).padStart(2, "0")).join("");
const grouped = new Uint8Array(facts.shown);
for (const { places } of facts.groups) for (const place of places) grouped[place] = 1;
const rest = Array.from(grouped.keys()).filter((i) => !grouped[i]);
const groups = facts.groups.map((group, i) => ({ ...group, colour: colourOf(i), on: !facts.shownGroups.length || facts.shownGroups.includes(group.name) }));
if (groups.length && rest.length) groups.push({ name: "in no group", total: null, places: rest, colour: [160, 160, 168], on: !facts.shownGroups.length });
const groupOf = new Int32Array(facts.shown); // the first of those that are on; -1 for none
const assign = () => {
  groupOf.fill(-1);
  for (let g = groups.length - 1; g >= 0; g--) if (groups[g].on) for (const place of groups[g].places) groupOf[place] = g;
};
const listGroups = () => {
  at("groups").querySelector("ul").replaceChildren(...groups.map((group, g) => {
    const row = document.createElement("li"), box = document.createElement("input"), colour = document.createElement("input");
    const label = document.createElement("label"), count = document.createElement("span");
    Object.assign(box, { type: "checkbox", checked: group.on, id: "group-" + g });
    Object.assign(colour, { type: "color", value: hex(group.colour) });
    colour.setAttribute("aria-label", "Colour of " + group.name);
    Object.assign(label, { htmlFor: box.id, textContent: group.name });
    count.textContent = group.places.length.toLocaleString("en") + (group.total === null || group.total === group.places.length ? "" : " of " + group.total.toLocaleString("en"));
    box.addEventListener("input", (event) => { event.stopPropagation(); group.on = box.checked; refresh(); });
    colour.addEventListener("input", (event) => {
      event.stopPropagation();
      group.colour = [1, 3, 5].map((k) => parseInt(colour.value.slice(k, k + 2), 16));
      refresh();
    });
    row.append(box, colour, label, count);
    return row;
  }));
};
const turnAll = (on) => {
  for (const group of groups) group.on = on;
  listGroups();
  refresh();
};

// --------------------------------------------------------------------------------------------------------- colours
const lutOf = (name) => viewer.colormap(name);
const numbers = facts.values.map((_, i) => new Float32Array(bytesOf("values-" + i)));
const scales = new Map(); // what the user has chosen for each set of values
let draw = null, cut = null, isChosen = () => true, colourScale = null;
const colouring = () => {
  const name = controls.colour.value;
  if (name === "single") {
    const colour = [1, 3, 5].map((k) => parseInt(controls.single.value.slice(k, k + 2), 16));
    return coloursOf.each(() => colour);
  }
  if (name === "group") return coloursOf.each((i) => groupOf[i] < 0 ? UNKNOWN_COLOUR : groups[groupOf[i]].colour);
  if (name in coloursOf) return coloursOf[name];
  return coloursOf.values(numbers[name], facts.values[name].ofPoints, colourScale);
};
const showScale = () => {
  const name = controls.colour.value, isValue = name in facts.values;
  at("directions").hidden = !["direction", "ends"].includes(name);
  at("single").hidden = name !== "single";
  at("colour-scale").hidden = !isValue;
  if (isValue) colourScale.set(...(scales.get(name) ?? ["viridis", ...facts.values[name].window]));
};
const keepScale = () => {
  scales.set(controls.colour.value, [colourScale.map, colourScale.low, colourScale.high]);
  refresh();
};

// --------------------------------------------------------------------------------------------------------- the scene
const refresh = () => {
  assign();
  const count = draw(colouring(), (i) => (!groups.length || groupOf[i] >= 0) && isChosen(i), controls.tubes.checked);
  at("drawn").textContent = "Streamlines shown: " + count.toLocaleString("en") + " of " + facts.shown.toLocaleString("en");
  document.body.dataset.drawn = count;
  apply();
};
const before = {}; // values of the controls for which NiiVue makes something anew
const apply = () => {
  const mesh = viewer.meshes[0], thickness = Number(controls.thickness.value);
  mesh.visible = controls.streamlines.checked && mesh.indexCount > 2;
  at("density-scale").hidden = !controls.density.checked;
  cut(controls.slab.value === "" ? null : Number(controls.slab.value), thickness);
  const opacities = [...(facts.hasImage ? [Number(controls.opacity.value)] : []), controls.density.checked ? 0.85 : 0];
  const clip = [Number(controls.depth.value), ...controls.side.value.split(",").map(Number)];
  const steps = [
    ["view", controls.view.value, () => viewer.setSliceType(Number(controls.view.value))],
    ["clip", clip.join(), () => viewer.setClipPlane(clip)],
    ["opacities", opacities.join(), () => { opacities.forEach((opacity, i) => { viewer.volumes[i].opacity = opacity; }); viewer.updateGLVolume(); }],
  ].filter(([name, value]) => before[name] !== value);
  for (const [name, value, step] of steps) {
    before[name] = value;
    step();
  }
  for (const [name, text] of [["thickness", thickness + " mm"], ["opacity", Math.round(100 * controls.opacity.value) + " %"], ["depth", controls.depth.value]]) {
    controls[name].parentElement.querySelector("output").textContent = text;
  }
  if (!steps.length) viewer.drawScene();
};
// the scale of an image, in an element, begins with what is there or with what is given
const scaleOfVolume = (volume, element, label, start) => {
  const scale = makeScale(element, lutOf, () => show(), label);
  const show = () => {
    [volume.cal_min, volume.cal_max] = [scale.low, scale.high];
    volume.colormap = scale.map;
    viewer.updateGLVolume();
  };
  scale.set(...(start ?? [volume.colormap, volume.cal_min, volume.cal_max]));
  if (start) show();
};

// The scale of the colours, at the lower left of a picture.
const drawScale = (pen, width, height) => {
  const size = Math.max(Math.round(Math.min(width, height) / 40), 8), wide = Math.round(width / 6), top = height - 3 * size;
  for (let k = 0; k < wide; k++) {
    const place = 4 * Math.floor(256 * k / wide);
    pen.fillStyle = "rgb(" + colourScale.lut.slice(place, place + 3) + ")";
    pen.fillRect(size + k, top, 1, size);
  }
  pen.font = size + "px system-ui, sans-serif";
  pen.fillStyle = "#d9d9e6";
  pen.fillText(facts.values[controls.colour.value].name, size, top - 0.5 * size);
  pen.fillText(colourScale.low, size, top + 2.2 * size);
  pen.textAlign = "right";
  pen.fillText(colourScale.high, size + wide, top + 2.2 * size);
};
// A picture has as many pixels as asked for: the scene is drawn at that size, not made larger.
const picture = async (width, height) => {
  canvas.width = width;
  canvas.height = height;
  viewer.gl.viewport(0, 0, width, height);
  viewer.textSizePoints();
  try {
    viewer.drawScene();
    const [across, high] = [viewer.gl.drawingBufferWidth, viewer.gl.drawingBufferHeight];
    if (across !== width || high !== height) throw new Error("this browser draws at most " + across + " × " + high + " pixels of this picture");
    const whole = Object.assign(document.createElement("canvas"), { width, height }), pen = whole.getContext("2d");
    pen.drawImage(canvas, 0, 0);
    if (controls.colour.value in facts.values) drawScale(pen, width, height);
    return await new Promise((resolve) => { whole.toBlob(resolve, "image/png"); });
  } finally {
    viewer.resizeListener();
  }
};
const save = async () => {
  const [width, height] = [controls.width, controls.height].map((input) => Number(input.value));
  if (![controls.width, controls.height].every((input) => input.checkValidity() && input.value !== "")) throw new Error("give a width and a height from 16 to 16384 pixels");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await picture(width, height));
  link.download = "streamlines.png";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};

// ------------------------------------------------------------------------------------------------------------ keys
const cycle = (select) => {
  select.selectedIndex = (select.selectedIndex + 1) % select.length;
  select.dispatchEvent(new Event("input", { bubbles: true }));
};
const slide = (input, by) => {
  input.value = Number(input.value) + by;
  input.dispatchEvent(new Event("input", { bubbles: true }));
};
const move = (...voxels) => viewer.moveCrosshairInVox(...voxels);
const KEYS = {
  ArrowLeft: ["move the crosshair, as do Page Up and Down", () => move(-1, 0, 0)],
  ArrowRight: [null, () => move(1, 0, 0)], ArrowUp: [null, () => move(0, 1, 0)], ArrowDown: [null, () => move(0, -1, 0)],
  PageUp: [null, () => move(0, 0, 1)], PageDown: [null, () => move(0, 0, -1)],
  "1": ["slices and 3-D; 2 to 5: 3-D, axial, coronal, sagittal", () => look("3")],
  s: ["streamlines on and off", () => controls.streamlines.click()],
  t: ["tubes or lines", () => controls.tubes.click()],
  c: ["next colours", () => cycle(controls.colour)],
  g: ["all groups on, or off", () => turnAll(!groups.every((group) => group.on))],
  x: ["next slab", () => cycle(controls.slab)],
  "[": ["thinner slab", () => slide(controls.thickness, -1)],
  "]": ["thicker slab", () => slide(controls.thickness, 1)],
  d: ["density on and off", () => controls.density.click()],
  r: ["matrix or ring", () => at(at("as-ring").getAttribute("aria-pressed") === "true" ? "as-matrix" : "as-ring").click()],
  Escape: ["all edges", () => at("all-edges").click()],
  p: ["save the picture", () => at("save").click()],
  "?": ["these keys", () => at("keys").showModal()],
};
const look = (view) => {
  controls.view.value = view;
  apply();
};
["4", "0", "1", "2"].forEach((view, i) => { KEYS[String(i + 2)] = [null, () => look(view)]; });
const usable = (key) => (key !== "g" || groups.length > 0) && (!["r", "Escape"].includes(key) || facts.connectome !== null);
at("keys").querySelector("table").replaceChildren(...Object.entries(KEYS).filter(([key, [text]]) => text && usable(key)).map(([key, [text]]) => {
  const row = document.createElement("tr"), cells = [0, 1].map(() => document.createElement("td"));
  cells[0].append(Object.assign(document.createElement("kbd"), { textContent: { Escape: "Esc", ArrowLeft: "arrows" }[key] ?? key }));
  cells[1].textContent = text;
  row.append(...cells);
  return row;
}));
// before NiiVue, for whose keys the scene has to be clicked first
document.addEventListener("keydown", (event) => {
  const takes = /^(Arrow|Page)/.test(event.key) ? "input, select, .matrix canvas" : "select, input[type=number]";
  const isOther = event.ctrlKey || event.metaKey || event.altKey || event.target.matches(takes) || at("keys").open;
  if (isOther || !(event.key in KEYS) || !usable(event.key)) return;
  event.preventDefault();
  event.stopPropagation();
  KEYS[event.key][1]();
}, true);

// ----------------------------------------------------------------------------------------------------------- begin
const begin = async () => {
  const gl = document.createElement("canvas").getContext("webgl2");
  if (!gl) throw new Error("this browser has no WebGL2, which NiiVue needs");
  // without a GPU, tubes take seconds to draw
  const named = gl.getExtension("WEBGL_debug_renderer_info");
  const software = named !== null && /swiftshader|llvmpipe|software/i.test(gl.getParameter(named.UNMASKED_RENDERER_WEBGL));
  controls.tubes.checked = !software;
  controls.thickness.value = 2 * facts.slab;
  const names = facts.hasImage ? ["image", "density"] : ["density"];
  viewer.onLocationChange = (place) => {
    const values = names.map((name, i) => name + " " + Number((place.values[i]?.value ?? 0).toPrecision(4)));
    at("place").textContent = Array.from(place.mm).slice(0, 3).map((x) => x.toFixed(1)).join(", ") + " mm: " + values.join(", ");
  };
  await viewer.attachToCanvas(canvas, !software);
  if (facts.hasImage) await viewer.loadFromArrayBuffer(bytesOf("image"), "image.nii.gz");
  await viewer.loadFromArrayBuffer(bytesOf("density"), "density.nii.gz");
  await viewer.loadFromArrayBuffer(bytesOf("streamlines"), "streamlines.tck");
  const mesh = viewer.meshes[0];
  mesh.offsetPt0 = mesh.offsetPt0.slice(-facts.shown - 1); // without the empty streamline, which NiiVue may lose
  if (mesh.offsetPt0.length !== facts.shown + 1) throw new Error("NiiVue reads other streamlines than the page has");
  draw = takeOver(mesh, viewer.gl, facts.radius);
  cut = cutBySlab(viewer, mesh);

  const choices = [["direction", "direction"], ["ends", "direction between ends"], ["single", "one colour"]];
  if (groups.length) choices.push(["group", "group"]);
  controls.colour.replaceChildren(...[...choices, ...facts.values.map(({ name }, i) => [String(i), name])].map(([value, text]) => new Option(text, value)));
  controls.colour.value = facts.beginsWithValues ? "0" : facts.shownGroups.length ? "group" : "direction";
  colourScale = makeScale(at("colour-scale"), lutOf, keepScale, "streamlines");
  const [image, density] = facts.hasImage ? viewer.volumes : [null, viewer.volumes[0]];
  if (image) scaleOfVolume(image, at("image-scale"), "image");
  scaleOfVolume(density, at("density-scale"), "density", ["hot", facts.hasImage ? 0.5 : 0, facts.brightest]);
  at("groups").hidden = !groups.length;
  listGroups();
  at("connectome").hidden = facts.connectome === null;
  if (facts.connectome !== null) isChosen = makeConnectome(at("connectome"), facts, new Int32Array(bytesOf("nodes")), refresh);
  for (const image of document.querySelectorAll(".image")) image.hidden = !facts.hasImage;

  at("controls").addEventListener("submit", (event) => event.preventDefault());
  at("controls").addEventListener("input", (event) => {
    if (event.target.name === "colour") showScale();
    if (["colour", "single", "tubes"].includes(event.target.name)) refresh();
    else if (!["width", "height"].includes(event.target.name)) apply();
  });
  at("all-groups").onclick = () => turnAll(true);
  at("no-groups").onclick = () => turnAll(false);
  at("help").onclick = () => at("keys").showModal();
  at("save").onclick = () => save().then(() => tell(""), (error) => tell(error.message));
  showScale();
  refresh();
  at("place").textContent = "";
  viewer.createOnLocationChange();
  document.body.dataset.ready = "true";
};
begin().catch((error) => {
  tell("The streamlines cannot be shown: " + error.message);
  at("place").textContent = "";
});
