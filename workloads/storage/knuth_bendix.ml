(* Knuth-Bendix completion of the axioms of groups, so many times over: terms are built, matched,
   unified and thrown away. The complete system has ten rules. *)

type term = Var of int | Op of string * term list

exception No_match

let rec size = function
  | Var _ -> 1
  | Op (_, arguments) -> List.fold_left (fun sum term -> sum + size term) 1 arguments

let rec substitute bound = function
  | Var v as term -> ( try List.assoc v bound with Not_found -> term)
  | Op (name, arguments) -> Op (name, List.map (substitute bound) arguments)

let rec matches bound pattern term =
  match (pattern, term) with
  | Var v, _ -> (
      match List.assoc_opt v bound with
      | None -> (v, term) :: bound
      | Some known -> if known = term then bound else raise No_match)
  | Op (f, left), Op (g, right) when f = g -> List.fold_left2 matches bound left right
  | _ -> raise No_match

let rec occurs v = function
  | Var w -> v = w
  | Op (_, arguments) -> List.exists (occurs v) arguments

let rec unify bound (left, right) =
  match (substitute bound left, substitute bound right) with
  | Var v, Var w when v = w -> bound
  | Var v, term | term, Var v ->
      if occurs v term then raise No_match;
      (v, term) :: List.map (fun (w, old) -> (w, substitute [ (v, term) ] old)) bound
  | Op (f, left), Op (g, right) when f = g ->
      List.fold_left unify bound (List.combine left right)
  | _ -> raise No_match

let apply_at_root rules term =
  List.find_map
    (fun (left, right) ->
      match matches [] left term with
      | bound -> Some (substitute bound right)
      | exception No_match -> None)
    rules

let rec normal_form rules term =
  let term =
    match term with
    | Var _ -> term
    | Op (name, arguments) -> Op (name, List.map (normal_form rules) arguments)
  in
  match apply_at_root rules term with Some next -> normal_form rules next | None -> term

(* The lexicographic path ordering. *)
let weight = function "inverse" -> 2 | "times" -> 1 | _ -> 0

let rec greater s t =
  match (s, t) with
  | Var _, _ -> false
  | _, Var v -> occurs v s
  | Op (f, left), Op (g, right) ->
      List.exists (fun part -> part = t || greater part t) left
      || List.for_all (greater s) right
         && (weight f > weight g || (f = g && greater_in_order left right))

and greater_in_order left right =
  match (left, right) with
  | first :: left, other :: right ->
      if first = other then greater_in_order left right else greater first other
  | _ -> false

let rec renamed shift = function
  | Var v -> Var (v + shift)
  | Op (name, arguments) -> Op (name, List.map (renamed shift) arguments)

let numbered (left, right) =
  let rec variables seen = function
    | Var v -> if List.mem v seen then seen else seen @ [ v ]
    | Op (_, arguments) -> List.fold_left variables seen arguments
  in
  let names = List.mapi (fun place v -> (v, Var place)) (variables (variables [] left) right) in
  (substitute names left, substitute names right)

(* What becomes of [term] when a part of it that is no variable is rewritten by the rule. *)
let rec overlaps (left, right) term =
  match term with
  | Var _ -> []
  | Op (name, arguments) ->
      let here =
        match unify [] (left, term) with
        | bound -> [ (bound, substitute bound right) ]
        | exception No_match -> []
      in
      let rec inside before = function
        | [] -> []
        | part :: after ->
            List.map
              (fun (bound, next) ->
                let others = List.map (substitute bound) in
                (bound, Op (name, others (List.rev before) @ (next :: others after))))
              (overlaps (left, right) part)
            @ inside (part :: before) after
      in
      here @ inside [] arguments

let critical_pairs (l1, r1) (l2, r2) =
  let l2 = renamed 100 l2 and r2 = renamed 100 r2 in
  List.map (fun (bound, next) -> (next, substitute bound r2)) (overlaps (l1, r1) l2)

let by_size (a, b) (c, d) = compare (size a + size b, (a, b)) (size c + size d, (c, d))

let rec complete rules = function
  | [] -> rules
  | (a, b) :: equations -> (
      let a = normal_form rules a and b = normal_form rules b in
      if a = b then complete rules equations
      else
        let rule =
          if greater a b then (a, b)
          else if greater b a then (b, a)
          else failwith "an equation has no direction"
        in
        let rule = numbered rule in
        let is_reduced (left, _) = normal_form [ rule ] left <> left in
        let reduced, kept = List.partition is_reduced rules in
        let kept = List.map (fun (l, r) -> (l, normal_form (rule :: kept) r)) kept in
        let rules = rule :: kept in
        let pairs =
          List.concat_map
            (fun other -> critical_pairs rule other @ critical_pairs other rule)
            rules
        in
        let fresh = List.map numbered (reduced @ pairs) in
        complete rules (List.sort_uniq by_size (fresh @ equations)))

let rec text = function
  | Var v -> Printf.sprintf "x%d" v
  | Op (name, []) -> name
  | Op (name, arguments) ->
      Printf.sprintf "%s(%s)" name (String.concat ", " (List.map text arguments))

let axioms =
  let times a b = Op ("times", [ a; b ]) and one = Op ("one", []) in
  let x = Var 0 and y = Var 1 and z = Var 2 in
  [
    (times one x, x);
    (times (Op ("inverse", [ x ])) x, one);
    (times (times x y) z, times x (times y z));
  ]

let () =
  let rules = ref [] in
  for _ = 1 to int_of_string Sys.argv.(1) do
    rules := complete [] (List.sort by_size axioms)
  done;
  List.iter
    (fun (left, right) -> Printf.printf "%s -> %s\n" (text left) (text right))
    (List.sort by_size !rules)
