// Package resume tests that a program that waits for a person survives a crash of the
// server. It kills the server and checks that the program continues in the next one,
// with the right value and every side effect done once.
package resume
