"""Holds what keep made, and drops what drop did."""


def keep() -> list[bytearray]:
    return [bytearray(3000) for _ in range(2000)]


def drop() -> None:
    for _ in range(1000):
        bytearray(50000)


kept = keep()
drop()
