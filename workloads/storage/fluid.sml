(* A fluid-dynamics kernel, as in fluid.ml: waves of shallow water in a square without edges, by Lax
   and Friedrichs' scheme. Numbers are in arrays of reals. No water is gained or lost. *)

type water = { depth : real array, east : real array, north : real array }

val gravity = 9.81

fun start n : water =
  let
    fun bump k =
      let
        val x = real (k mod n - n div 2) and y = real (k div n - n div 3)
      in
        1.0 + 0.5 * Math.exp (~ (x * x + y * y) / 20.0)
      end
  in
    {
      depth = Array.tabulate (n * n, bump),
      east = Array.array (n * n, 0.0),
      north = Array.array (n * n, 0.0)
    }
  end

fun flow_east (depth, east, north) =
  let val speed = east / depth
  in (east, east * speed + 0.5 * gravity * depth * depth, north * speed) end

fun flow_north (depth, east, north) =
  let val speed = north / depth
  in (north, east * speed, north * speed + 0.5 * gravity * depth * depth) end

fun step (n, ratio, now : water) : water =
  let
    fun at (field, i, j) = Array.sub (field, (j + n) mod n * n + (i + n) mod n)
    fun of_cell flow (i, j) =
      flow (at (#depth now, i, j), at (#east now, i, j), at (#north now, i, j))
    val next = start n
    val half = 0.5 * ratio
    fun cell (i, j) =
      let
        val (d1, e1, n1) = of_cell flow_east (i + 1, j)
        and (d2, e2, n2) = of_cell flow_east (i - 1, j)
        val (d3, e3, n3) = of_cell flow_north (i, j + 1)
        and (d4, e4, n4) = of_cell flow_north (i, j - 1)
        fun mean field =
          0.25 * (at (field, i + 1, j) + at (field, i - 1, j) + at (field, i, j + 1)
                  + at (field, i, j - 1))
        val k = j * n + i
      in
        Array.update (#depth next, k, mean (#depth now) - half * (d1 - d2 + d3 - d4));
        Array.update (#east next, k, mean (#east now) - half * (e1 - e2 + e3 - e4));
        Array.update (#north next, k, mean (#north now) - half * (n1 - n2 + n3 - n4))
      end
    fun cells k = if k = n * n then next else (cell (k mod n, k div n); cells (k + 1))
  in
    cells 0
  end

fun run (_, 0, water) = water
  | run (n, left, water) = run (n, left - 1, step (n, 0.05, water))

fun main (_, [steps]) =
      let
        val n = 60
        fun total (water : water) = Array.foldl op + 0.0 (#depth water)
        val first = start n
        val after = run (n, valOf (Int.fromString steps), first)
        val is_kept = abs (total after - total first) < 1E~6
        val highest = Array.foldl Real.max 0.0 (#depth after)
      in
        print
          (steps ^ " steps, water kept: " ^ Bool.toString is_kept ^ ", highest "
           ^ Real.fmt (StringCvt.FIX (SOME 6)) highest ^ "\n");
        OS.Process.success
      end
  | main _ = OS.Process.failure
