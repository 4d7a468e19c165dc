package embed

import "golang.org/x/sys/cpu"

// canUseAVX says whether fourAVX may be used.
func canUseAVX(n int) bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA && n%8 == 0 }

//go:noescape
func fourAVX(x, w0, w1, w2, w3 *float32, n int, sums *[4]float32)
