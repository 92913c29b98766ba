"""What tests share."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SUPPORT = ROOT / "tests" / "support"

# Ubuntu's compiler marks targets of jumps, checks sizes of objects, and keeps canaries and room in
# stacks: other instructions are counted, and what is lost is still found on the stack.
AS_DEBIAN_COMPILES = (
    "-fcf-protection=none", "-fno-stack-clash-protection", "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
)  # fmt: skip
