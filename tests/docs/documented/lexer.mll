rule token = parse
  | [' ' '\t' '\n'] { token lexbuf }
  | ['0'-'9']+ as digits { Some (int_of_string digits) }
  | '+' | '*' | '(' | ')' { token lexbuf }
  | eof { None }
