"""Writes a user manual in PostScript: 126 pages with text that is broken into lines while it runs.

usage: make_manual.py FILE DICTIONARY
"""

import random
import sys

PAGES = 126
HEAD = """\
%!PS-Adobe-3.0
/width 468 def /left 72 def /leading 13 def
/body /Helvetica findfont 11 scalefont def
/head /Times-Bold findfont 18 scalefont def
/down { /y y leading sub def } bind def
/flush-line { left y moveto line show down /line () def } bind def
/join { 2 copy length exch length add string dup dup 4 index 0 exch putinterval
  3 index length 3 index putinterval exch pop exch pop } bind def
/add-word { /word exch def
  line length 0 eq { /line word def } {
    /longer line ( ) join word join def
    longer stringwidth pop width gt { flush-line /line word def } { /line longer def } ifelse
  } ifelse } bind def
/paragraph { /line () def
  { ( ) search { add-word pop } { add-word exit } ifelse } loop flush-line down } bind def
/heading { head setfont left y moveto show /y y 24 sub def body setfont } bind def
/count-words { /counts 400 dict def
  { ( ) search
    { dup counts exch known { dup counts exch get } { 0 } ifelse 1 add
      exch cvn exch counts 3 1 roll put pop }
    { pop exit } ifelse } loop counts length = } bind def
/figure { gsave 300 y 60 sub translate 0 1 35 { 10 mul dup rotate newpath 0 0 moveto
  0 60 20 60 40 0 curveto closepath 36 div setgray fill } for grestore } bind def
"""


def main() -> None:
    path, dictionary = sys.argv[1:3]
    with open(dictionary, encoding="utf-8") as file:
        words = [word for word in file.read().split() if word.isascii() and word.isalpha()]
    rng = random.Random(1)
    with open(path, "w", encoding="ascii") as file:
        file.write(HEAD)
        for page in range(1, PAGES + 1):
            file.write(f"%%Page: {page} {page}\n/y 740 def\n({rng.choice(words)}) heading\n")
            for _ in range(14):
                text = " ".join(rng.choices(words, k=90))
                file.write(f"({text}) dup paragraph count-words\n")
            file.write("figure showpage\n")


if __name__ == "__main__":
    main()
