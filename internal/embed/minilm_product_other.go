//go:build !amd64

package embed

func canUseAVX(int) bool { return false }

func fourAVX(_, _, _, _, _ *float32, _ int, _ *[4]float32) { panic("not on this processor") }
