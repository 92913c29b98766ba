(* The game of Life on lists, as in life.ml: so many generations of Gosper's glider gun, which sends
   out a glider, five cells, every 30 generations. *)

val gun =
  [
    "........................X...........",
    "......................X.X...........",
    "............XX......XX............XX",
    "...........X...X....XX............XX",
    "XX........X.....X...XX..............",
    "XX........X...X.XX....X.X...........",
    "..........X.....X.......X...........",
    "...........X...X....................",
    "............XX......................"
  ]

(* A cell is a number, by rows, on a board without edges that matter. *)
val width = 65536

val cells =
  let
    fun row (y, text) =
      List.mapPartial
        (fn x => if String.sub (text, x) = #"X" then SOME ((y + 1000) * width + x + 1000) else NONE)
        (List.tabulate (String.size text, fn x => x))
    val rows = List.tabulate (length gun, fn y => (y, List.nth (gun, y)))
  in
    List.concat (map row rows)
  end

fun around cell =
  [
    cell - width - 1, cell - width, cell - width + 1, cell - 1,
    cell + 1, cell + width - 1, cell + width, cell + width + 1
  ]

fun merge ([], right : int list) = right
  | merge (left, []) = left
  | merge (left as a :: left', right as b :: right') =
      if a <= b then a :: merge (left', right) else b :: merge (left, right')

fun split ([], left, right) = (left, right)
  | split (one :: rest, left, right) = split (rest, one :: right, left)

fun sort [] = []
  | sort [one] = [one]
  | sort several =
      let val (left, right) = split (several, [], [])
      in merge (sort left, sort right) end

(* Runs of equal cells in a sorted list, with their lengths. *)
fun counted [] = []
  | counted (cell :: rest) = run (cell, 1, rest)
and run (cell : int, length, rest) =
      case rest of
        next :: others =>
          if next = cell then run (cell, length + 1, others) else (cell, length) :: counted rest
      | [] => [(cell, length)]

(* Of two lists in order, the cells that live on, and those that are born. *)
fun next (_, []) = []
  | next ([], (place, count) :: rest) =
      if count = 3 then place :: next ([], rest) else next ([], rest)
  | next (alive as cell :: others, neighbours as (place, count) :: rest) =
      if cell < place then next (others, neighbours)
      else if cell = place then
        if count = 2 orelse count = 3 then cell :: next (others, rest) else next (others, rest)
      else if count = 3 then place :: next (alive, rest)
      else next (alive, rest)

fun generation alive = next (alive, counted (sort (List.concat (map around alive))))

fun live (0, alive) = alive
  | live (left, alive) = live (left - 1, generation alive)

fun main (_, [generations]) =
      let
        val n = valOf (Int.fromString generations)
        val alive = length (live (n, sort cells))
      in
        print (Int.toString alive ^ " cells after " ^ Int.toString n ^ " generations\n");
        OS.Process.success
      end
  | main _ = OS.Process.failure
