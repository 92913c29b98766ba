"""Makes nodes that point at each other, and keeps the newest."""

newest: dict[int, list[object]] = {}
for number in range(30_000):
    first: list[object] = [number]
    second: list[object] = [first]
    first.append(second)
    newest[number % 100] = first
print(len(newest))
