%token <int> NUMBER
%token PLUS TIMES OPEN CLOSE EOF
%left PLUS
%left TIMES
%start <int> main
%%
main: value = expression EOF { value }
expression:
  | number = NUMBER { number }
  | OPEN value = expression CLOSE { value }
  | left = expression PLUS right = expression { left + right }
  | left = expression TIMES right = expression { left * right }
