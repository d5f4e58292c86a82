"""Surfaces that are generated: balls of triangles, and files of them as FreeSurfer and others write them."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np

LIA = np.array([[-1.0, 0, 0], [0, 0, 1], [0, -1, 0]])  # columns are the voxel axes of a conformed volume


def icosphere(splits=3, radius=1.0, centre=(0, 0, 0)):
    """Vertices and triangles of a ball, counter-clockwise seen from outside, of an icosahedron that is split."""
    golden = (1 + 5**0.5) / 2
    vertices = [vertex for a in (-1, 1) for b in (-golden, golden) for vertex in ((0, a, b), (a, b, 0), (b, 0, a))]
    vertices = np.array(vertices) / np.hypot(1, golden)
    near = np.linalg.norm(vertices[:, None] - vertices, axis=2) < 1.1
    all_three = np.array([(a, b, c) for a in range(12) for b in range(a) for c in range(b)])
    triangles = all_three[(near[all_three, np.roll(all_three, 1, axis=1)]).all(axis=1)]
    out = np.linalg.det(vertices[triangles]) < 0
    triangles[out] = triangles[out][:, ::-1]
    for _ in range(splits):
        edges = np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1)
        pairs, where = np.unique(edges, axis=0, return_inverse=True)
        middle = vertices[pairs].mean(axis=1)
        ab, bc, ca = where.reshape(3, -1) + len(vertices)
        a, b, c = triangles.T
        vertices = np.concatenate([vertices, middle / np.linalg.norm(middle, axis=1, keepdims=True)])
        parts = (a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)
        triangles = np.concatenate([np.stack(part, axis=1) for part in parts])
    return vertices * radius + centre, triangles


def footer(centre=(0, 0, 0), axes=LIA, valid="1  # volume info valid"):
    """The geometry of a volume as FreeSurfer writes it after the triangles."""
    x, y, z = np.asarray(axes).T
    return {
        "head": [2, 0, 20], "valid": valid, "filename": "orig.mgz", "volume": [256, 256, 256],
        "voxelsize": [1.0, 1.0, 1.0], "xras": x, "yras": y, "zras": z, "cras": np.asarray(centre, float),
    }


def save_freesurfer(path: Path, vertices, triangles, info=None, scanner=False) -> Path:
    """Write FreeSurfer's geometry; ``scanner`` as mris_convert --to-scanner does."""
    nib.freesurfer.write_geometry(path, vertices, triangles, "created by a test", info)
    if scanner:
        content, head = path.read_bytes(), np.array([2, 0, 20], ">i4").tobytes()
        assert content.count(head) == 1
        path.write_bytes(content.replace(head, np.array([2, 1, 20], ">i4").tobytes()))
    return path


def fields(centre, axes=LIA):
    """The fields of a volume's geometry that FreeSurfer writes to GIFTI."""
    columns = zip("XYZC", [*np.asarray(axes).T, centre], strict=True)
    return {f"VolGeom{name}_{row}": f"{column[i]:.6f}" for name, column in columns for i, row in enumerate("RAS")}


def save_gifti(path: Path, vertices, triangles=None, meta=None, system=None, encoding="B64GZ", about=None) -> Path:
    """Write a GIFTI surface; ``system`` is the space of the vertices, that of a matrix, and the matrix."""
    code = f"GIFTI_ENCODING_{encoding}"
    points = nib.gifti.GiftiDataArray(
        np.asarray(vertices, np.float32), "NIFTI_INTENT_POINTSET", "NIFTI_TYPE_FLOAT32", code,
        coordsys=None if system is None else nib.gifti.GiftiCoordSystem(*system),
        meta=nib.gifti.GiftiMetaData(meta or {}),
    )
    arrays = [points]
    if triangles is not None:
        arrays.append(nib.gifti.GiftiDataArray(np.asarray(triangles, np.int32), "NIFTI_INTENT_TRIANGLE",
                                               "NIFTI_TYPE_INT32", code))
    nib.save(nib.gifti.GiftiImage(darrays=arrays, meta=nib.gifti.GiftiMetaData(about or {})), path)
    return path


def quads(rows, columns, wrapped=(True, True)):
    """Triangles of a grid of (rows, columns) vertices, whose last row and column may be joined to the first."""
    i, j = np.meshgrid(np.arange(rows - (not wrapped[0])), np.arange(columns - (not wrapped[1])), indexing="ij")
    a, b, c, d = (((i + x) % rows * columns + (j + y) % columns).ravel() for x, y in ((0, 0), (1, 0), (1, 1), (0, 1)))
    return np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])


def torus(radius, tube, centre, steps=(180, 90)):
    """Vertices and triangles of a ring around z."""
    u, v = np.meshgrid(*(2 * np.pi * np.arange(count) / count for count in steps), indexing="ij")
    across = radius + tube * np.cos(v)
    vertices = np.stack([across * np.cos(u), across * np.sin(u), tube * np.sin(v)], axis=-1).reshape(-1, 3) + centre
    return vertices, quads(*steps)


def sheet(height, thickness, sides, count=160):
    """Vertices and triangles of a folded sheet of a thickness along z, closed at its four sides, over a rectangle."""
    (left, right), (front, back) = sides
    x, y = np.meshgrid(np.linspace(left, right, count), np.linspace(front, back, count), indexing="ij")
    half, middle = thickness / 2, height(x, y)
    top, bottom = (np.stack([x, y, middle + sign * half], axis=-1).reshape(-1, 3) for sign in (1, -1))
    over = quads(count, count, (False, False))
    number = np.arange(count**2).reshape(count, count)
    around = np.concatenate([number[:, 0], number[-1, 1:], number[-2::-1, -1], number[0, -2:0:-1]])
    a, b = around, np.roll(around, -1)
    walls = [np.stack(part, axis=1) for part in ((a + count**2, b + count**2, b), (a + count**2, b, a))]
    return np.concatenate([top, bottom]), np.concatenate([over, over[:, ::-1] + count**2, *walls])
