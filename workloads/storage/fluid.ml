(* A fluid-dynamics kernel: waves of shallow water in a square without edges, by Lax and Friedrichs'
   scheme. Most numbers are in float arrays, which hold them without a word for each. No water is
   gained or lost. *)

type water = { depth : float array; east : float array; north : float array }

let gravity = 9.81

let start n =
  let bump i j =
    let x = float_of_int (i - (n / 2)) and y = float_of_int (j - (n / 3)) in
    1. +. (0.5 *. exp (-.((x *. x) +. (y *. y)) /. 20.))
  in
  {
    depth = Array.init (n * n) (fun k -> bump (k mod n) (k / n));
    east = Array.make (n * n) 0.;
    north = Array.make (n * n) 0.;
  }

let flow_east depth east north =
  let speed = east /. depth in
  (east, (east *. speed) +. (0.5 *. gravity *. depth *. depth), north *. speed)

let flow_north depth east north =
  let speed = north /. depth in
  (north, east *. speed, (north *. speed) +. (0.5 *. gravity *. depth *. depth))

let step n ratio now =
  let at field i j = field.((((j + n) mod n) * n) + ((i + n) mod n)) in
  let next = start n in
  for j = 0 to n - 1 do
    for i = 0 to n - 1 do
      let of_cell flow i j = flow (at now.depth i j) (at now.east i j) (at now.north i j) in
      let d1, e1, n1 = of_cell flow_east (i + 1) j and d2, e2, n2 = of_cell flow_east (i - 1) j in
      let d3, e3, n3 = of_cell flow_north i (j + 1) and d4, e4, n4 = of_cell flow_north i (j - 1) in
      let mean field =
        0.25 *. (at field (i + 1) j +. at field (i - 1) j +. at field i (j + 1) +. at field i (j - 1))
      in
      let half = 0.5 *. ratio in
      let k = (j * n) + i in
      next.depth.(k) <- mean now.depth -. (half *. (d1 -. d2 +. d3 -. d4));
      next.east.(k) <- mean now.east -. (half *. (e1 -. e2 +. e3 -. e4));
      next.north.(k) <- mean now.north -. (half *. (n1 -. n2 +. n3 -. n4))
    done
  done;
  next

let () =
  let n = 60 and steps = int_of_string Sys.argv.(1) in
  let rec run left water = if left = 0 then water else run (left - 1) (step n 0.05 water) in
  let total water = Array.fold_left ( +. ) 0. water.depth in
  let before = start n in
  let after = run steps before in
  Printf.printf "%d steps, water kept: %b, highest %.6f\n" steps
    (abs_float (total after -. total before) < 1e-6)
    (Array.fold_left max 0. after.depth)
