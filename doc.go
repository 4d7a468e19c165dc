// Package toolroom holds the nouns of Toolroom, the runtime for the tools that
// LLM agents call: [ID], [Tool], [Call], [Result], [Error] and [Event].
//
// It imports the standard library only and opens neither files nor sockets.
// Go programs that want to run tools start at the package room.
package toolroom
