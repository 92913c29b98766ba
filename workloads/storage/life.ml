(* The game of Life on lists: so many generations of Gosper's glider gun, which sends out a glider,
   five cells, every 30 generations. *)

let gun =
  [
    "........................X...........";
    "......................X.X...........";
    "............XX......XX............XX";
    "...........X...X....XX............XX";
    "XX........X.....X...XX..............";
    "XX........X...X.XX....X.X...........";
    "..........X.....X.......X...........";
    "...........X...X....................";
    "............XX......................";
  ]

(* A cell is a number, by rows, on a board without edges that matter. *)
let width = 1 lsl 20

let cells =
  List.concat
    (List.mapi
       (fun y row ->
         List.filter_map
           (fun x -> if row.[x] = 'X' then Some (((y + 1000) * width) + x + 1000) else None)
           (List.init (String.length row) Fun.id))
       gun)

let around cell =
  [
    cell - width - 1; cell - width; cell - width + 1; cell - 1;
    cell + 1; cell + width - 1; cell + width; cell + width + 1;
  ]

(* Runs of equal cells in a sorted list, with their lengths. *)
let rec counted = function
  | [] -> []
  | (cell : int) :: rest ->
      let rec run length = function
        | next :: rest when next = cell -> run (length + 1) rest
        | rest -> (cell, length) :: counted rest
      in
      run 1 rest

(* Of two lists in order, the cells that live on, and those that are born. *)
let rec next (alive : int list) neighbours =
  match (alive, neighbours) with
  | _, [] -> []
  | cell :: others, (place, _) :: _ when cell < place -> next others neighbours
  | cell :: others, (place, count) :: rest when cell = place ->
      if count = 2 || count = 3 then cell :: next others rest else next others rest
  | _, (place, count) :: rest -> if count = 3 then place :: next alive rest else next alive rest

let generation alive =
  next alive (counted (List.sort Int.compare (List.concat_map around alive)))

let () =
  let rec live left alive = if left = 0 then alive else live (left - 1) (generation alive) in
  let generations = int_of_string Sys.argv.(1) in
  Printf.printf "%d cells after %d generations\n"
    (List.length (live generations (List.sort Int.compare cells)))
    generations
