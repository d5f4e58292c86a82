// Paints slices, and the streamlines near them, on a 2-D canvas. Without a GPU, WebGL takes ten times as long.
const painterOf = (viewer, canvas, slabMM) => {
  const context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
  const MOST = 512; // pixels of a slice along an axis, before the canvas enlarges it
  const known = []; // the last slice of each kind without streamlines, whose text says what it shows
  const buffers = []; // the pixels of each kind of slice on the canvas, which are used again
  const image = (() => {
    const { img, hdr, cal_min: low, cal_max: high } = viewer.volumes[0];
    const [a, b, c] = hdr.affine, [nx, ny, nz] = hdr.dims.slice(1, 4);
    const cross = (u, v) => [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
    const columns = [cross(b, c), cross(c, a), cross(a, b)]; // of the inverse, times the determinant
    const size = a[0] * columns[0][0] + a[1] * columns[0][1] + a[2] * columns[0][2];
    const inverse = [0, 1, 2].map((row) => columns.map((column) => column[row] / size));
    const sides = [0, 1, 2].map((axis) => Math.hypot(a[axis], b[axis], c[axis]));
    return { img, hdr, low, high, inverse, origin: [a[3], b[3], c[3]], shape: [nx, ny, nz], side: Math.min(...sides) };
  })();

  // the plane of a tile, in which NiiVue finds clicks from now on; it sets that itself only when it draws
  const planeOf = (tile) => {
    const sliceFrac = viewer.scene.crosshairPos[2 - tile.axCorSag];
    Object.assign(tile, { sliceFrac, AxyzMxy: viewer.xyMM2xyzMM(tile.axCorSag, sliceFrac) });
    return slicePlane(viewer, tile.axCorSag);
  };

  // grey values of a slice at the distance of voxels
  const sliceOf = (tile, { at, right, up }) => {
    const [u, v, w] = SLICE_AXES[tile.axCorSag], [left, bottom] = tile.leftTopMM, [wide, tall] = tile.fovMM;
    const [nx, ny, nz] = image.shape, { img, hdr, low, high, inverse, origin } = image;
    const columns = Math.min(MOST, Math.ceil(wide / image.side)), rows = Math.min(MOST, Math.ceil(tall / image.side));
    const grey = new Float32Array(columns * rows);
    const scale = 255 / Math.max(high - low, 1e-30), slope = (hdr.scl_slope || 1) * scale, shift = ((hdr.scl_inter || 0) - low) * scale;
    const step = inverse.map((row) => (row[u] + right * row[w]) * wide / columns), point = [0, 0, 0], begin = [0, 0, 0];
    for (let j = 0, o = 0; j < rows; j++) {
      point[u] = left + 0.5 * wide / columns;
      point[v] = bottom + (1 - (j + 0.5) / rows) * tall;
      point[w] = at + right * point[u] + up * point[v];
      for (let k = 0; k < 3; k++) point[k] -= origin[k];
      for (let k = 0; k < 3; k++) begin[k] = inverse[k][0] * point[0] + inverse[k][1] * point[1] + inverse[k][2] * point[2];
      for (let i = 0; i < columns; i++, o++) {
        const x = begin[0] + i * step[0], y = begin[1] + i * step[1], z = begin[2] + i * step[2];
        const p = Math.floor(x), q = Math.floor(y), r = Math.floor(z);
        if (p < -1 || q < -1 || r < -1 || p >= nx || q >= ny || r >= nz) continue;
        let sum = 0;
        for (let corner = 0; corner < 8; corner++) {
          const e = p + (corner & 1), f = q + (corner >> 1 & 1), g = r + (corner >> 2);
          if (e < 0 || f < 0 || g < 0 || e >= nx || f >= ny || g >= nz) continue;
          const share = (corner & 1 ? x - p : 1 - x + p) * (corner & 2 ? y - q : 1 - y + q) * (corner & 4 ? z - r : 1 - z + r);
          sum += share * (img[e + nx * (f + ny * g)] * slope + shift);
        }
        grey[o] = Math.min(Math.max(sum, 0), 255);
      }
    }
    return { grey, columns, rows };
  };

  // pixels of a slice, between whose values they are interpolated: along rows first, then between two rows
  const enlarge = ({ grey, columns, rows }, width, height) => {
    const words = new Uint32Array(width * height);
    const from = new Int32Array(width), share = new Float32Array(width), long = new Float32Array(width * rows);
    for (let x = 0; x < width; x++) {
      const place = Math.min(Math.max((x + 0.5) * columns / width - 0.5, 0), columns - 1);
      from[x] = Math.min(Math.floor(place), Math.max(columns - 2, 0));
      share[x] = place - from[x];
    }
    for (let j = 0, o = 0; j < rows; j++) for (let x = 0; x < width; x++, o++) {
      const k = j * columns + from[x], first = grey[k];
      long[o] = columns > 1 ? first + (grey[k + 1] - first) * share[x] : first;
    }
    for (let y = 0, o = 0; y < height; y++) {
      const place = Math.min(Math.max((y + 0.5) * rows / height - 0.5, 0), rows - 1), row = Math.floor(place);
      const part = place - row, above = row * width, below = Math.min(row + 1, rows - 1) * width;
      for (let x = 0; x < width; x++, o++) {
        const value = long[above + x] + (long[below + x] - long[above + x]) * part + 0.5 | 0;
        words[o] = 0xff000000 | value << 16 | value << 8 | value;
      }
    }
    return words;
  };

  // pixels of the slice of a tile
  const behind = (tile, plane, width, height) => {
    const text = [...tile.leftTopMM, ...tile.fovMM, ...Object.values(plane), width, height].join();
    if (known[tile.axCorSag]?.text !== text) known[tile.axCorSag] = { text, words: enlarge(sliceOf(tile, plane), width, height) };
    return known[tile.axCorSag].words;
  };
  const crosshair = () => viewer.frac2mm(viewer.scene.crosshairPos, 0, true);
  const tiles = () => viewer.screenSlices.filter((tile) => tile.axCorSag < 3);

  // a line between two points of a tile in pixels, one pixel wide, whose border is blended
  const line = (pixels, x, y, toX, toY, red, green, blue) => {
    const { data, width, height } = pixels, steep = Math.abs(toY - y) > Math.abs(toX - x);
    if (steep) [x, y, toX, toY] = [y, x, toY, toX];
    const [wide, tall, along, across] = steep ? [height, width, 4 * width, 4] : [width, height, 4, 4 * width];
    const end = Math.round(toX), sense = end > Math.round(x) ? 1 : -1, slope = (toY - y) / (toX - x || 1);
    for (let i = Math.round(x); i !== end; i += sense) {
      const j = y + (i - x) * slope, low = Math.floor(j);
      if (i < 0 || i >= wide || low < 0 || low + 1 >= tall) continue;
      let o = i * along + low * across, share = 1 - j + low;
      for (let side = 0; side < 2; side++, o += across, share = 1 - share) {
        data[o] += (red - data[o]) * share;
        data[o + 1] += (green - data[o + 1]) * share;
        data[o + 2] += (blue - data[o + 2]) * share;
      }
    }
  };

  // the parts of streamlines within the slab around a slice, in the colours of their directions
  const draw = (pixels, tile, { at, right, up: rise, steep }, offsets, points, wide) => {
    const [u, v, w] = SLICE_AXES[tile.axCorSag], [left, bottom] = tile.leftTopMM;
    const across = pixels.width / tile.fovMM[0], up = pixels.height / tile.fovMM[1];
    const most = slabMM * steep;
    const isFar = (k) => Math.abs(points[k + w] - at - right * points[k + u] - rise * points[k + v]) > most;
    for (let i = 0; i + 1 < offsets.length; i++) {
      let from = -1; // the point up to which the line is drawn
      for (let k = 3 * offsets[i], end = 3 * offsets[i + 1]; k < end; k += 3) {
        if (isFar(k)) {
          from = -1;
          continue;
        }
        if (from < 0) {
          from = k;
          continue;
        }
        const x = (points[from + u] - left) * across, y = pixels.height - (points[from + v] - bottom) * up;
        const toX = (points[k + u] - left) * across, toY = pixels.height - (points[k + v] - bottom) * up;
        const last = k + 3 === end || isFar(k + 3);
        if (!last && Math.abs(toX - x) < 2 && Math.abs(toY - y) < 2) continue;
        const a = points[k] - points[from], b = points[k + 1] - points[from + 1], c = points[k + 2] - points[from + 2];
        const scale = 255 / (Math.sqrt(a * a + b * b + c * c) || 1);
        const red = Math.abs(a) * scale, green = Math.abs(b) * scale, blue = Math.abs(c) * scale;
        line(pixels, x, y, toX, toY, red, green, blue);
        if (wide) line(pixels, x + 1, y + 1, toX + 1, toY + 1, red, green, blue);
        from = k;
      }
    }
  };

  const words = (tile, [x, y, wide, tall]) => {
    const [top, left] = [["A", "L"], ["S", "L"], ["S", "P"]][tile.axCorSag];
    Object.assign(context, { font: "15px system-ui, sans-serif", fillStyle: "rgb(217 217 230)", textBaseline: "top", textAlign: "center" });
    context.fillText(top, x + wide / 2, y + 8);
    Object.assign(context, { textBaseline: "middle", textAlign: "left" });
    context.fillText(left, x + 3, y + tall / 2);
  };

  // makes the slices while streamlines are on their way
  const prepare = () => {
    for (const tile of tiles()) behind(tile, planeOf(tile), ...tile.leftTopWidthHeight.slice(2).map(Math.round));
  };

  // the ellipse that shows where a ball meets the slice of a tile, as arguments of a canvas' ellipse; null if it does not
  const ellipseOf = (ball, [u, v, w], { at, right, up, steep }, scale) => {
    const away = (ball[w] - at - right * ball[u] - up * ball[v]) / steep, radius = Math.sqrt(ball[3] ** 2 - away ** 2);
    if (!(radius > 0)) return null;
    const place = [ball[u] + away * right / steep, ball[v] + away * up / steep];
    return [place, [radius * scale / steep, radius * scale, Math.atan2(-up, right), 0, 2 * Math.PI]];
  };

  // paints streamlines, and balls: each has a place and a radius in mm, and a colour
  const paint = (offsets, points, balls, wide) => {
    const { width, height } = viewer.gl.canvas;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    context.fillStyle = "#000";
    context.fillRect(0, 0, width, height);
    const place = crosshair();
    for (const tile of tiles()) {
      const [x, y, wideTile, tallTile] = tile.leftTopWidthHeight.map(Math.round), axes = SLICE_AXES[tile.axCorSag];
      const plane = planeOf(tile), scale = wideTile / tile.fovMM[0];
      let pixels = buffers[tile.axCorSag];
      if (pixels?.width !== wideTile || pixels.height !== tallTile) pixels = buffers[tile.axCorSag] = new ImageData(wideTile, tallTile);
      new Uint32Array(pixels.data.buffer).set(behind(tile, plane, wideTile, tallTile));
      draw(pixels, tile, plane, offsets, points, wide);
      context.putImageData(pixels, x, y);
      context.save();
      context.beginPath();
      context.rect(x, y, wideTile, tallTile);
      context.clip();
      const right = (mm) => x + (mm - tile.leftTopMM[0]) * scale, up = (mm) => y + tallTile - (mm - tile.leftTopMM[1]) * tallTile / tile.fovMM[1];
      for (const { ball, colour } of balls) {
        const ellipse = ellipseOf(ball, axes, plane, scale);
        if (ellipse === null) continue;
        Object.assign(context, { fillStyle: "rgb(" + colour.join(" ") + " / 35%)", strokeStyle: "rgb(" + colour.join(" ") + ")", lineWidth: 1.5 });
        context.beginPath();
        context.ellipse(right(ellipse[0][0]), up(ellipse[0][1]), ...ellipse[1]);
        context.fill();
        context.stroke();
      }
      context.fillStyle = "rgb(242 191 51 / 60%)";
      context.fillRect(x, up(place[axes[1]]), wideTile, 1);
      context.fillRect(right(place[axes[0]]), y, 1, tallTile);
      words(tile, [x, y, wideTile, tallTile]);
      context.restore();
    }
  };
  return { paint, prepare };
};
