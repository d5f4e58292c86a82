"""Ask a page of live tracking for streamlines, as a navigator does while its coil moves.

    tistreamlines view --live dwi.nii.gz --no-browser   # prints the ADDRESS
    python examples/live_client.py ADDRESS X Y Z
"""

import json
import struct
import sys

import numpy as np
from websockets.sync.client import connect


def streamlines(channel, number, **options):
    """Return the head of an answer, and the points of each streamline, (n, 3) RASmm."""
    channel.send(json.dumps({"id": number, "options": options}))
    answer = channel.recv()
    if isinstance(answer, str):
        raise SystemExit(json.loads(answer)["error"])
    (size,) = struct.unpack_from("<I", answer)
    head = json.loads(answer[4 : 4 + size])
    offsets = np.frombuffer(answer, "<u4", head["streamlines"] + 1, 4 + size)
    points = np.frombuffer(answer, "<f4", -1, 4 + size + offsets.nbytes).reshape(-1, 3)
    return head, np.split(points, offsets[1:-1])


def main():
    address, *place = sys.argv[1:]
    x, y, z = map(float, place)
    with connect(address.replace("http", "ws", 1) + "track", max_size=None) as channel:
        for number in range(10):  # the coil moves along x
            head, lines = streamlines(channel, number, seed_sphere=[x + number, y, z, 3], nseeds=500)
            farthest = max((np.abs(line - (x + number, y, z)).max() for line in lines), default=0)
            print(f"{len(lines)} streamlines in {head['seconds']:.3f} s, up to {farthest:.0f} mm from x = {x + number}")
    print(head["command"])


if __name__ == "__main__":
    main()
