// Package toolroom defines the types that all of Toolroom shares: [ID], [Tool], [Call],
// [Result], [Error] and [Event].
//
// It imports only the standard library and opens neither files nor sockets. To run tools
// from a Go program, start with package room.
package toolroom
