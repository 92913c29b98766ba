"""Writes a standard-cell netlist and the parameters of a small process, for placement by graywolf.

usage: make_netlist.py FOLDER CELLS
"""

import itertools
import random
import sys
from pathlib import Path

# An invented process of three layers with one width and one spacing, which add up to the pitch.
LAYERS = {"low": "horizontal", "middle": "vertical", "high": "horizontal"}
WIDTH = SPACING = 80
SETTINGS = {
    "*random.seed": "1",
    "*graphics.wait": "off",
    "*last_chance.wait": "off",
    "*padspacing": "variable",
    "*rowSep": "0.0 0",
    "*track.pitch": str(WIDTH + SPACING),
    "*vertical_path_weight": "1.0",
    "*vertical_wire_weight": "1.0",
    "TWMC*chip.aspect.ratio": "1.0",
    "TWSC*do.global.route": "on",
    "TWSC*feedThruWidth": f"{WIDTH + SPACING} layer 1",
    "TWSC*ignore_feeds": "true",
    "GENR*row_to_tile_spacing": "1",
}
PITCH = WIDTH + SPACING
HALF_HEIGHT = 1000
PADS = 24


def parameters() -> str:
    names = list(LAYERS)
    vias = [(f"{one}_{two}", one, two) for one, two in itertools.pairwise(names)]
    lines = ["RULES"]
    lines += [f"layer {name} 0.05 0.01 {direction}" for name, direction in LAYERS.items()]
    lines += [f"via {via} {one} {two}" for via, one, two in vias]
    lines += [f"width {name} {WIDTH}" for name in [*names, *(via for via, _, _ in vias)]]
    lines += [f"spacing {name} {name} {SPACING}" for name in names]
    lines += [f"overhang {via} {layer} 8" for via, *layers in vias for layer in layers]
    lines += ["ENDRULES", *(f"{key} : {value}" for key, value in SETTINGS.items())]
    return "\n".join(lines) + "\n"


def cell(rng: random.Random, number: int, nets: int) -> str:
    pitches = rng.randrange(3, 7)
    half = pitches * PITCH // 2
    lines = [f"cell {number} cell{number}", f"left {-half} right {half} bottom -1000 top 1000"]
    columns = [-half + PITCH // 2 + PITCH * column for column in range(pitches)]
    for column, x in enumerate(columns, start=1):
        name = f"twfeed{column}"
        lines.append(f"pin name {name} signal TW_PASS_THRU layer 1 {x} {-HALF_HEIGHT}")
        lines.append(f"   equiv name {name} layer 1 {x} {HALF_HEIGHT}")
    # Nets near the cell's own number are more likely, so that a good placement exists.
    for pin, x in zip("YABC", columns, strict=False):
        near = number if pin == "Y" else int(rng.gauss(number, nets / 20)) % nets
        lines.append(f"pin name {pin} signal net{near} layer 1 {x} {rng.randrange(-600, 600)}")
    return "\n".join(lines) + "\n"


def pad(rng: random.Random, number: int, nets: int) -> str:
    net = number * nets // PADS + rng.randrange(3)
    return (
        f"pad {number + 1} name twpin{number}\ncorners 4 -80 -100 -80 100 80 100 80 -100\n"
        f"pin name pin{number} signal net{net} layer 1 0 0\n\n"
    )


def main() -> None:
    folder, cells = Path(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(1)
    with open(folder / "chip.cel", "w", encoding="ascii") as file:
        for number in range(cells):
            file.write(cell(rng, number, cells))
        for number in range(PADS):
            file.write(pad(rng, number, cells))
    (folder / "chip.par").write_text(parameters(), encoding="ascii")


if __name__ == "__main__":
    main()
