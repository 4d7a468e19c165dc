#include "textflag.h"

// func fourAVX(x, w0, w1, w2, w3 *float32, n int, sums *[4]float32)
// Requires AVX2 and FMA, and that n is a multiple of 8.
TEXT ·fourAVX(SB), NOSPLIT, $0-56
	MOVQ x+0(FP), AX
	MOVQ w0+8(FP), R8
	MOVQ w1+16(FP), R9
	MOVQ w2+24(FP), R10
	MOVQ w3+32(FP), R11
	MOVQ n+40(FP), CX
	MOVQ sums+48(FP), DX
	XORQ BX, BX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3

loop:
	CMPQ BX, CX
	JGE  sum
	VMOVUPS (AX)(BX*4), Y4
	VFMADD231PS (R8)(BX*4), Y4, Y0
	VFMADD231PS (R9)(BX*4), Y4, Y1
	VFMADD231PS (R10)(BX*4), Y4, Y2
	VFMADD231PS (R11)(BX*4), Y4, Y3
	ADDQ $8, BX
	JMP  loop

sum:
	VHADDPS Y1, Y0, Y0
	VHADDPS Y3, Y2, Y2
	VHADDPS Y2, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPS X1, X0, X0
	VMOVUPS X0, (DX)
	VZEROUPPER
	RET
