(* A workbench of finite-state processes: n switches side by side, which anything may turn on and
   off in any order, have 2^n states. Those that behave alike are found by refining a partition until
   it is stable; there are n + 1 classes, since only how many are on can be observed. *)

module States = Map.Make (Int)
module Signatures = Map.Make (struct
  type t = int * (string * int) list

  let compare = compare
end)

let steps n state =
  List.init n (fun place ->
      let bit = 1 lsl place in
      ((if state land bit = 0 then "on" else "off"), state lxor bit))

(* Classes are numbered in the order in which they are met. *)
let refine graph classes =
  let signature state moves =
    let observed = List.map (fun (label, next) -> (label, States.find next classes)) moves in
    (States.find state classes, List.sort_uniq compare observed)
  in
  let _, refined =
    States.fold
      (fun state moves (known, refined) ->
        let key = signature state moves in
        match Signatures.find_opt key known with
        | Some number -> (known, States.add state number refined)
        | None ->
            let number = Signatures.cardinal known in
            (Signatures.add key number known, States.add state number refined))
      graph
      (Signatures.empty, States.empty)
  in
  refined

let number_of classes = 1 + States.fold (fun _ number most -> max number most) classes 0

let rec stable graph rounds classes =
  let refined = refine graph classes in
  if number_of refined = number_of classes then (rounds, classes)
  else stable graph (rounds + 1) refined

let () =
  let n = int_of_string Sys.argv.(1) in
  let states = List.init (1 lsl n) Fun.id in
  let graph =
    List.fold_left (fun graph state -> States.add state (steps n state) graph) States.empty states
  in
  let rounds, classes = stable graph 0 (States.map (fun _ -> 0) graph) in
  Printf.printf "%d states, %d classes after %d rounds\n" (States.cardinal graph)
    (number_of classes) rounds
