// Package archtest holds the rules of the house as text, and the test that
// keeps them: who may import whom, which heavy or dangerous package has its
// one door where, which versions move only together, whose strings may name
// an agent, what the binary links and what it costs to start.
//
// The data in rules_test.go is policy. It is not to be changed to make a build
// pass: a new line there is a decision, made for a reason that can be said, and
// reviewed as one.
package archtest
