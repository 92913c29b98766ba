(* Perspective inversion: from where a camera sees points of a known object, find out where the
   object is and how it is turned, by Gauss and Newton's method. Floating-point numbers in tuples,
   records and lists are objects. *)

type pose = { turns : float list; shift : float * float * float }

let rotate angle (a, b) =
  ((a *. cos angle) -. (b *. sin angle), (a *. sin angle) +. (b *. cos angle))

let moved pose (x, y, z) =
  match (pose.turns, pose.shift) with
  | [ first; second; third ], (right, up, away) ->
      let y, z = rotate first (y, z) in
      let z, x = rotate second (z, x) in
      let x, y = rotate third (x, y) in
      (x +. right, y +. up, z +. away)
  | _ -> invalid_arg "three angles"

let seen pose point =
  let x, y, z = moved pose point in
  (x /. z, y /. z)

let parameters pose =
  let a, b, c = pose.shift in
  pose.turns @ [ a; b; c ]

let pose_of = function
  | [ a; b; c; x; y; z ] -> { turns = [ a; b; c ]; shift = (x, y, z) }
  | _ -> invalid_arg "six parameters"

let residuals points observed pose =
  List.concat
    (List.map2
       (fun point (u, v) ->
         let x, y = seen pose point in
         [ u -. x; v -. y ])
       points observed)

let dot = List.fold_left2 (fun sum a b -> sum +. (a *. b)) 0.

(* Elimination, with the largest pivot. Rows are lists whose last number is the right side. *)
let rec solve rows =
  match rows with
  | [] -> []
  | _ ->
      let larger a b = if abs_float (List.hd a) >= abs_float (List.hd b) then a else b in
      let pivot = List.fold_left larger (List.hd rows) rows in
      let head = List.hd pivot and rest = List.tl pivot in
      let reduce row =
        let factor = List.hd row /. head in
        List.map2 (fun a b -> a -. (factor *. b)) (List.tl row) rest
      in
      let found = solve (List.map reduce (List.filter (fun row -> row != pivot) rows)) in
      let known = dot (List.filteri (fun i _ -> i < List.length found) rest) found in
      ((List.nth rest (List.length found) -. known) /. head) :: found

let improved points observed pose =
  let step = 1e-6 in
  let now = parameters pose and error = residuals points observed pose in
  let slopes =
    List.mapi
      (fun i _ ->
        let other = pose_of (List.mapi (fun j p -> if i = j then p +. step else p) now) in
        List.map2
          (fun before after -> (before -. after) /. step)
          error
          (residuals points observed other))
      now
  in
  let rows =
    List.map (fun slope -> List.map (dot slope) slopes @ [ dot slope error ]) slopes
  in
  pose_of (List.map2 ( +. ) now (solve rows))

let () =
  let rounds = int_of_string Sys.argv.(1) in
  let state = ref 12345 in
  let random () =
    state := ((!state * 1103515245) + 12345) land 0x3fffffff;
    (float_of_int !state /. 1073741824.) -. 0.5
  in
  let worst = ref 0. in
  for _ = 1 to rounds do
    let points =
      List.init 40 (fun _ ->
          let x = random () in
          let y = random () in
          (x, y, random ()))
    in
    let truth =
      pose_of (List.map (fun start -> start +. (0.4 *. random ())) [ 0.3; -0.2; 0.5; 0.1; 0.2; 4. ])
    in
    let observed = List.map (seen truth) points in
    let rec search left pose =
      if left = 0 then pose else search (left - 1) (improved points observed pose)
    in
    let found = search 8 (pose_of [ 0.3; -0.2; 0.5; 0.1; 0.2; 4. ]) in
    let distance =
      List.fold_left2
        (fun most a b -> max most (abs_float (a -. b)))
        0. (parameters found) (parameters truth)
    in
    worst := max !worst distance
  done;
  Printf.printf "%d poses found, all within a millionth: %b\n" rounds (!worst < 1e-6)
