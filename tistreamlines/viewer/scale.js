// A scale: a colour map, and the two values between which the colours change, which the user can change.
const MAPS = ["viridis", "plasma", "inferno", "hot", "gray", "cool", "blue2red", "turbo"];

// The ends of a window, with four digits, or as many as tell both ends and what lies between them apart.
const roundWindow = (low, high) => {
  const digits = 4 + Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / (high - low)));
  return [low, high].map((value) => Number(value.toPrecision(Math.min(digits || 17, 17))));
};

// Adds a scale to an element; ``hear`` is called after each change by the user. ``lutOf`` returns the 256 colours of a
// map, four bytes each.
const makeScale = (root, lutOf, hear, label) => {
  const maps = document.createElement("select"), bar = document.createElement("canvas");
  const [least, greatest] = ["least", "greatest"].map((kind) => {
    const input = document.createElement("input");
    Object.assign(input, { type: "number", step: "any", className: kind });
    input.setAttribute("aria-label", (kind === "least" ? "Value of the first colour: " : "Value of the last colour: ") + label);
    return input;
  });
  maps.setAttribute("aria-label", "Colours: " + label);
  Object.assign(bar, { width: 256, height: 1 });
  const scale = document.createElement("div");
  scale.className = "scale";
  scale.append(bar, least, greatest, maps);
  root.append(scale);
  const paint = () => {
    const colours = Uint8ClampedArray.from(lutOf(maps.value), (x, k) => k % 4 === 3 ? 255 : x);
    bar.getContext("2d").putImageData(new ImageData(colours, 256, 1), 0, 0);
  };
  let ends = [0, 1]; // those that are typed count once they are in order
  const values = {
    get map() { return maps.value; },
    get lut() { return lutOf(maps.value); },
    get low() { return ends[0]; },
    get high() { return ends[1]; },
    set: (map, low, high) => {
      maps.replaceChildren(...[...new Set([map, ...MAPS])].map((name) => new Option(name, name)));
      maps.value = map;
      ends = [least.value, greatest.value] = roundWindow(low, high);
      paint();
    },
  };
  scale.addEventListener("input", (event) => {
    event.stopPropagation();
    const typed = [least, greatest].map((input) => input.valueAsNumber);
    if (!(typed[0] < typed[1])) return;
    ends = typed;
    paint();
    hear();
  });
  return values;
};
