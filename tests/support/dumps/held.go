// Writes a heap profile of what it holds, and of what it dropped.
package main

import (
	"os"
	"runtime"
	"runtime/pprof"
)

var kept [][]byte
var sink []byte

//go:noinline
func keep(n int) {
	for i := 0; i < n; i++ {
		kept = append(kept, make([]byte, 1024))
	}
}

//go:noinline
func drop(n int) {
	for i := 0; i < n; i++ {
		sink = make([]byte, 4096)
	}
}

func main() {
	runtime.MemProfileRate = 4096
	keep(5000)
	drop(3000)
	runtime.GC()
	file, _ := os.Create(os.Args[1])
	pprof.WriteHeapProfile(file)
	file.Close()
}
