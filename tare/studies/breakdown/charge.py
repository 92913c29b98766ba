"""Charges the instructions of a process outside all phases and operations."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tare.base.libraries import NDArray, np
from tare.records.components import COUNTING, OTHER, Certainty
from tare.studies.breakdown import allocation, frame_tables, inlining
from tare.studies.breakdown.allocation import Site
from tare.studies.breakdown.classifier import Classifier
from tare.studies.breakdown.code import Instruction, decode, updates_object
from tare.studies.breakdown.descriptor import Descriptor
from tare.studies.breakdown.found import Found
from tare.studies.breakdown.image import Image, read_image
from tare.studies.breakdown.inlining import Place
from tare.studies.breakdown.patterns import Mark
from tare.studies.breakdown.tables import ProcessTables

_NO_FILE = "linkage tables, and code of no file"
_WORD_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Charge:
    """Adds to ``found`` the instructions of a process outside all phases and operations;
    ``charged`` is as in ``Judged``."""

    tables: ProcessTables
    descriptor: Descriptor
    found: Found
    charged: dict[int, str] = field(default_factory=dict)

    def add_plain(
        self,
        plain: NDArray[np.int64],
        language: Mapping[int, Image],
        images: dict[str, Image | None],
    ) -> None:
        code = self.tables.code
        counts = plain[code["stretch"].astype(np.int64)]
        objects = code["object"].astype(np.int64)
        for number, one in enumerate(self.tables.objects):
            mine = (objects == number) & (counts > 0)
            rows = np.flatnonzero(mine)
            if number not in language:
                rows = self._add_inlined(rows, counts, one)
            if not len(rows):
                continue
            if not self.descriptor.recognise:
                self.found.own += int(counts[rows].sum())
            elif number in language:
                mapped = _mapped(self.tables.objects, images) if number == 0 else []
                self._add_language(rows, counts, language[number], mapped)
            elif not one["file"] and self.descriptor.made_code is not None:
                self._add_made_code(rows, counts)
            else:
                self.found.unexplained[Path(one["file"]).name or _NO_FILE] += int(
                    counts[rows].sum()
                )

    def _places(self, rows: NDArray[np.int64], one: Mapping[str, Any]) -> dict[int, Place]:
        """By address in the process, where instructions of an object belong; nothing where it does
        not matter."""
        if not self.descriptor.inlined or not one["file"]:
            return {}
        addresses = np.unique(self.tables.code["address"][rows])
        in_file = addresses - np.uint64(int(one["bias"]) & _WORD_MASK)
        places = inlining.places(one["file"], in_file.tolist())
        return dict(zip(addresses.tolist(), places, strict=True))

    def _add_inlined(
        self, rows: NDArray[np.int64], counts: NDArray[np.int64], one: Mapping[str, Any]
    ) -> NDArray[np.int64]:
        """Those in functions that the descriptor names, and in all that debug information
        describes; returns the others."""
        code, places = self.tables.code, self._places(rows, one)
        left = []
        for row in rows.tolist() if places else ():
            address, count = int(code["address"][row]), int(counts[row])
            mark = self.descriptor.mark_of_functions(places[address].functions)
            if mark is not None and mark.component != OTHER:
                length, low, high = (int(code[name][row]) for name in ("length", "low", "high"))
                instruction = _decoded((address, length, low, high), self.descriptor.bits)
                self._charge(instruction, mark, count)
                self.charged[address] = mark.component
            elif places[address].known:
                self.found.own += count
            else:
                left.append(row)
        return np.array(left, np.int64) if places else rows

    def _charge(self, one: Instruction, mark: Mark, count: int) -> None:
        self.found.components[mark.component, mark.certainty] += count
        counts = mark.component in COUNTING and mark.certainty is Certainty.SURE
        if counts and mark.writes_counts and updates_object(one):
            self.found.updates[mark.component, one.atomic] += count

    def _add_language(
        self,
        rows: NDArray[np.int64],
        counts: NDArray[np.int64],
        image: Image,
        mapped: Sequence[tuple[int, int]],
    ) -> None:
        """Those in an object that has code of the language, and perhaps other code; or in no file,
        and not where files are ``mapped``."""
        code, descriptor, found = self.tables.code, self.descriptor, self.found
        one = self.tables.objects[int(code["object"][rows[0]])]
        bias = int(one["bias"])
        addresses = code["address"][rows] - np.uint64(bias & (1 << 64) - 1)
        for start, end, component in descriptor.routine_ranges(image) if one["file"] else ():
            there = (addresses >= np.uint64(start)) & (addresses < np.uint64(end))
            found.components[component, Certainty.SURE] += int(counts[rows[there]].sum())
            self.charged.update(dict.fromkeys(code["address"][rows[there]].tolist(), component))
            rows, addresses = rows[~there], addresses[~there]
        if one["file"]:
            rest = f"{image.path.name}, not in the language"
            is_language = _is_in(addresses, descriptor.code_ranges(image))
        else:
            rest, is_language = _NO_FILE, ~_is_in(addresses, mapped)
        found.unexplained[rest] += int(counts[rows[~is_language]].sum())
        classifier = Classifier(descriptor, image.names, image.bytes_at)
        rows, addresses = rows[is_language], addresses[is_language]
        inlined = {
            (address - bias) & _WORD_MASK: told
            for address, place in self._places(rows, one).items()
            if (told := descriptor.mark_of_functions(place.functions)) is not None
        }
        sites = self._add_instructions(rows, addresses, counts, classifier, inlined)
        _check_sites(descriptor, image, sites, found)

    def _add_made_code(self, rows: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Those in code of no file, by what the process told of it."""
        assert self.descriptor.made_code is not None
        made, names = self.tables.made, self.descriptor.made_code.names
        addresses = self.tables.code["address"][rows]
        is_language = np.zeros(len(rows), bool)
        for place, address in enumerate(addresses.tolist()):
            piece = made.at(address)
            if piece is not None and names.fullmatch(piece.name):
                is_language[place] = True
            else:
                name = _NO_FILE if piece is None else piece.name
                self.found.unexplained[name] += int(counts[rows[place]])
        rows, addresses = rows[is_language], addresses[is_language]
        classifier = Classifier(self.descriptor, made.names)
        _note_sites(self._add_instructions(rows, addresses, counts, classifier, {}), self.found)

    def _add_instructions(
        self,
        rows: NDArray[np.int64],
        addresses: NDArray[np.uint64],
        counts: NDArray[np.int64],
        classifier: Classifier,
        inlined: Mapping[int, Mark],
    ) -> list[Site]:
        """Those in code of the language, ``addresses`` in its file; returns the places that
        allocate. What is ``inlined`` is surer than a pattern."""
        code, found, bits = self.tables.code, self.found, self.descriptor.bits
        bias = int(code["address"][rows[0]]) - int(addresses[0]) if len(rows) else 0
        executed: Counter[tuple[int, int, int, int]] = Counter()
        for address, length, low, high, count in zip(
            addresses.tolist(),
            code["length"][rows].tolist(),
            code["low"][rows].tolist(),
            code["high"][rows].tolist(),
            counts[rows].tolist(),
            strict=True,
        ):
            executed[address, length, low, high] += count
        decoded = [_decoded(row, bits) for row in executed]
        classification = classifier.classify(decoded)
        for one, ((address, length, _, _), count) in zip(decoded, executed.items(), strict=True):
            mark = inlined.get(address) or classification.marks.get((address, length))
            if mark is None or mark.component == OTHER:
                found.own += count
            else:
                self._charge(one, mark, count)
                if mark.certainty is Certainty.SURE:
                    self.charged[(address + bias) & _WORD_MASK] = mark.component
        taken = {site.address: site.bytes for site in classification.sites}
        found.allocated_bytes += sum(
            count * taken.get(address, 0) for (address, *_), count in executed.items()
        )
        return classification.sites


def _mapped(
    objects: Sequence[Mapping[str, Any]], images: dict[str, Image | None]
) -> list[tuple[int, int]]:
    """Where object files lie, with their linkage tables, which the instrument knows no file of."""
    return sorted(
        (start + one["bias"], end + one["bias"])
        for one in objects
        if (image := read_image(images, one["file"])) is not None
        for start, end in image.segments()
    )


def _is_in(addresses: NDArray[np.uint64], ranges: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Of addresses, whether they lie in one of the ranges, which are in order."""
    if not ranges:
        return np.zeros(len(addresses), np.bool_)
    sides = np.array(ranges, np.uint64)
    place = np.searchsorted(sides[:, 0], addresses, side="right") - 1
    found: NDArray[np.bool_] = (place >= 0) & (addresses < sides[np.maximum(place, 0), 1])
    return found


def _decoded(row: tuple[int, int, int, int], bits: int) -> Instruction:
    address, length, low, high = row
    return decode(address, (low | high << 64).to_bytes(16, "little")[:length], bits)


def _note_sites(sites: Sequence[Site], found: Found) -> None:
    found.sites += len(sites)
    found.tiled_sites += sum(site.words is not None for site in sites)


def _check_sites(descriptor: Descriptor, image: Image, sites: Sequence[Site], found: Found) -> None:
    _note_sites(sites, found)
    if descriptor.oracle not in _ORACLES:
        return
    agrees = _ORACLES[descriptor.oracle](image)
    for site in sites:
        if (verdict := agrees(site)) is not None:
            found.checked_sites += 1
            found.agreeing_sites += verdict


def _frame_tables(image: Image) -> Callable[[Site], bool | None]:
    return functools.partial(frame_tables.agrees, image, frame_tables.read_frame_tables(image))


def _heap_checks(image: Image) -> Callable[[Site], bool | None]:
    return functools.partial(allocation.agrees, image.bytes_at)


_ORACLES = {"ocaml-frame-tables": _frame_tables, "ghc-heap-checks": _heap_checks}
"""Whether a place that allocates is what the compiler says elsewhere; None where it does not."""
