"""Writes a standard-cell netlist and the parameters of a small process, for placement by graywolf.

usage: make_netlist.py FOLDER CELLS
"""

import random
import sys
from pathlib import Path

PARAMETERS = """\
RULES
    layer metal1 0.07 0.030 horizontal
    layer metal2 0.07 0.017 vertical
    layer metal3 0.07 0.006 horizontal
    via via12 metal1 metal2
    via via23 metal2 metal3
    width metal1 60
    width metal2 60
    width metal3 60
    width via12 60
    width via23 60
    spacing metal1 metal1 140
    spacing metal2 metal2 100
    spacing metal3 metal3 140
    spacing via12 via23 0
    overhang via12 metal1 8
    overhang via12 metal2 6
    overhang via23 metal2 8
    overhang via23 metal3 6
ENDRULES

*vertical_wire_weight : 1.0
*vertical_path_weight : 1.0
*padspacing           : variable
*rowSep               : 0.0   0
*track.pitch          : 160
*graphics.wait        : off
*last_chance.wait     : off
*random.seed          : 12345

TWMC*chip.aspect.ratio : 0.75

TWSC*feedThruWidth    : 160 layer 1
TWSC*do.global.route  : on
TWSC*ignore_feeds     : true
TWSC*call_row_evener  : true
TWSC*even_rows_maximally : true

GENR*row_to_tile_spacing: 1
GENR*flip_alternate_rows : 1
"""
PITCH = 160
HALF_HEIGHT = 1000
PADS = 24


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
    (folder / "chip.par").write_text(PARAMETERS, encoding="ascii")


if __name__ == "__main__":
    main()
