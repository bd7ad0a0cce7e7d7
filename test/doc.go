// Package test runs the real binary from end to end: real sandboxes, real files, real terminals, no
// mocks.
//
// A script in testdata/script shows the behaviour of a command: the commands that a person types and
// their output. Tests that need a terminal are written in Go. If root runs the tests, every test runs
// twice, as root and as an ordinary user without an account; an ordinary user runs it as that user. Each
// test has a state directory of its own and fails if anything of it is left at the end: a process, a
// mount, a control group, a file.
//
// On a host without user namespaces the tests skip and print the reason.
package test
