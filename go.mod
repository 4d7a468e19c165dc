module github.com/toolroom/toolroom

go 1.26.0

require (
	github.com/expr-lang/expr v1.17.8
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/hashicorp/golang-lru/v2 v2.0.7
	golang.org/x/sync v0.24.0
	golang.org/x/time v0.16.0
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	golang.org/x/sys v0.41.0 // indirect
)
