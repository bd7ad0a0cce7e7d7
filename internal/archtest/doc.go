// Package archtest holds the architecture rules as text, and the test that enforces them: who may import
// whom, which packages may import a heavy or dangerous one, which versions move only together, whose
// strings may name an agent, the packages that the binary links and the cost of its start.
//
// The data in rules_test.go is policy. Do not change it to make a build pass: a new line there is a
// decision with a stated reason, and is reviewed as one.
package archtest
