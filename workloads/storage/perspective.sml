(* Perspective inversion, as in perspective.ml: from where a camera sees points of a known object,
   find out where the object is and how it is turned, by Gauss and Newton's method. *)

type pose = { turns : real * real * real, shift : real * real * real }

fun rotate angle (a, b) =
  (a * Math.cos angle - b * Math.sin angle, a * Math.sin angle + b * Math.cos angle)

fun moved ({ turns = (first, second, third), shift = (right, up, away) } : pose) (x, y, z) =
  let
    val (y, z) = rotate first (y, z)
    val (z, x) = rotate second (z, x)
    val (x, y) = rotate third (x, y)
  in
    (x + right, y + up, z + away)
  end

fun seen pose point = let val (x, y, z) = moved pose point in (x / z, y / z) end

fun parameters ({ turns = (a, b, c), shift = (x, y, z) } : pose) = [a, b, c, x, y, z]

fun pose_of [a, b, c, x, y, z] : pose = { turns = (a, b, c), shift = (x, y, z) }
  | pose_of _ = raise Fail "six parameters"

fun residuals (points, observed, pose) =
  List.concat
    (ListPair.mapEq
       (fn (point, (u, v)) => let val (x, y) = seen pose point in [u - x, v - y] end)
       (points, observed))

fun dot (left, right : real list) = ListPair.foldl (fn (a, b, sum) => sum + a * b) 0.0 (left, right)

(* The row with the largest first number, and the others. *)
fun pivot ([] : real list list) = raise List.Empty
  | pivot [row] = (row, [])
  | pivot (row :: rows) =
      let
        val (largest, others) = pivot rows
      in
        if abs (hd row) >= abs (hd largest) then (row, largest :: others)
        else (largest, row :: others)
      end

(* Elimination. Rows are lists whose last number is the right side. *)
fun solve [] = []
  | solve rows =
      let
        val (largest, others) = pivot rows
        val head = hd largest and rest = tl largest
        fun reduced row =
          let val factor = hd row / head
          in ListPair.mapEq (fn (a, b) => a - factor * b) (tl row, rest) end
        val found = solve (map reduced others)
        val known = dot (rest, found)
      in
        (List.nth (rest, length found) - known) / head :: found
      end

fun changed (_, _, []) = []
  | changed (0, step : real, p :: rest) = p + step :: rest
  | changed (i, step, p :: rest) = p :: changed (i - 1, step, rest)

fun improved (points, observed, pose) =
  let
    val step = 1E~6
    val now = parameters pose and error = residuals (points, observed, pose)
    fun slope i =
      ListPair.mapEq
        (fn (first, after) => (first - after) / step)
        (error, residuals (points, observed, pose_of (changed (i, step, now))))
    val slopes = List.tabulate (length now, slope)
    val rows =
      map (fn slope => map (fn other => dot (slope, other)) slopes @ [dot (slope, error)]) slopes
  in
    pose_of (ListPair.mapEq op + (now, solve rows))
  end

fun search (_, _, 0, pose) = pose
  | search (points, observed, left, pose) =
      search (points, observed, left - 1, improved (points, observed, pose))

val state = ref (0w12345 : Word32.word)

fun random () =
  (state := Word32.andb (!state * 0w1103515245 + 0w12345, 0wx3fffffff);
   Real.fromLargeInt (Word32.toLargeInt (!state)) / 1073741824.0 - 0.5)

val beginning = [0.3, ~0.2, 0.5, 0.1, 0.2, 4.0]

fun distance_when_found () =
  let
    fun point _ = let val x = random () val y = random () in (x, y, random ()) end
    val points = List.tabulate (40, point)
    val truth = pose_of (map (fn start => start + 0.4 * random ()) beginning)
    val found = search (points, map (seen truth) points, 8, pose_of beginning)
  in
    ListPair.foldlEq
      (fn (a, b, most) => Real.max (most, abs (a - b)))
      0.0 (parameters found, parameters truth)
  end

fun worst (0, most) = most
  | worst (left, most) = worst (left - 1, Real.max (most, distance_when_found ()))

fun main (_, [rounds]) =
      let
        val is_near = worst (valOf (Int.fromString rounds), 0.0) < 1E~6
      in
        print (rounds ^ " poses found, all within a millionth: " ^ Bool.toString is_near ^ "\n");
        OS.Process.success
      end
  | main _ = OS.Process.failure
