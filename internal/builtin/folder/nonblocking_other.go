//go:build !unix

package folder

const nonBlocking = 0
