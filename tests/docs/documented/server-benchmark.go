package main

import "fmt"

type record struct {
	next *record
	text []byte
}

func main() {
	var newest [100]*record
	for number := 0; number < 300000; number++ {
		place := number % len(newest)
		newest[place] = &record{text: make([]byte, 16+number%200)}
	}
	fmt.Println(len(newest))
}
