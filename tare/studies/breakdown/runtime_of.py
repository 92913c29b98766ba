"""Which runtime's descriptor a program is observed with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tare.base.errors import TareError, UsageError
from tare.memory_managers.manager import OWN
from tare.observers import instrument
from tare.programs.elf import interpreter_of
from tare.programs.java_command import with_options
from tare.programs.program import Program, find_executable
from tare.records.components import MALLOC
from tare.studies.breakdown.descriptor import Descriptor, shipped
from tare.studies.breakdown.image import Image


def find_descriptor(image: Image) -> Descriptor:
    """Of the runtime in an executable; that of malloc where it has none that is known."""
    known = shipped()
    for descriptor in known.values():
        if descriptor.recognise and descriptor.recognises(image):
            return descriptor
    return known[MALLOC]


def chosen_descriptors(program: Program, runtime: str) -> tuple[Descriptor, ...]:
    """What to look for: the runtime of that name; without a name that of the program's executable,
    or all, for what a script may start."""
    return choose(program, executable_image(program), runtime)


def choose(program: Program, image: Image | None, runtime: str) -> tuple[Descriptor, ...]:
    """As ``chosen_descriptors``, where the image is known."""
    known = shipped()
    if runtime:
        if runtime not in known:
            raise UsageError(
                f"there is no descriptor of a runtime {runtime!r}", f"known: {', '.join(known)}"
            )
        if image is not None:
            known[runtime].name_functions(image)
        return (known[runtime],)
    launched = tuple(one for one in known.values() if _launches(program, one))
    if launched:
        return launched
    found = find_descriptor(image) if image is not None else known[MALLOC]
    # Interpreters, and programs in C++ and Rust, start others.
    return (found,) if found.recognise and not found.inlined else tuple(known.values())


def _launches(program: Program, descriptor: Descriptor) -> bool:
    return Path(program.argv[0]).name in descriptor.launchers


def telling_of_code(program: Program, descriptors: Sequence[Descriptor]) -> Program:
    """``program`` with the options by which JVMs tell of the code that they make: where it is one,
    or a script, which may start one."""
    executable = find_executable(program)
    is_script = interpreter_of(executable) != executable
    asked = {
        descriptor.made_code.java_options: None
        for descriptor in descriptors
        if descriptor.made_code is not None and (is_script or _launches(program, descriptor))
    }
    for options in asked:
        program = with_options(program, options)
    return program


def executable_image(program: Program) -> Image | None:
    """That of the executable that the kernel maps. MissingError where the instrument lacks what
    it needs for one of 32 bits."""
    try:
        image = Image(interpreter_of(find_executable(program)).resolve())
    except TareError:
        return None
    instrument.launcher(image.bits)
    return image


def default_manager(programs: Sequence[Program]) -> str:
    """What serves malloc where no manager is named: no preloaded object reaches 32-bit programs."""
    images = [executable_image(program) for program in programs]
    return OWN if any(image is not None and image.bits == 32 for image in images) else "glibc"


def refuse_narrow(programs: Sequence[Program]) -> None:
    """UsageError where a program has 32 bits: of these no memory system is simulated."""
    for program in programs:
        image = executable_image(program)
        if image is not None and image.bits == 32:
            raise UsageError(
                f"{program.argv[0]} has 32 bits: memory systems are simulated for 64 bits only",
                "leave --memory and --model out",
            )


def described(programs: Sequence[Program], runtime: str) -> list[str]:
    """The names of the descriptors that programs are observed with. UsageError for a ``runtime``
    that has none."""
    names = (d.name for one in programs for d in chosen_descriptors(one, runtime))
    return sorted(set(names))
