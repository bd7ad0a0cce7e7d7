package spec

import (
	"slices"
	"strings"
	"time"
)

// Occasions for automatic checkpoints.
const (
	EachTurn   = "each-turn"   // a request to a model is on its way, and the sandbox waits for the answer
	EachCommit = "each-commit" // a branch of a workspace's repository has moved
)

// minCheckpointTime is the shortest interval between two periodic checkpoints.
const minCheckpointTime = time.Second

// Occasions say when Bothy makes checkpoints of a sandbox automatically.
type Occasions struct {
	Turn   bool
	Commit bool
	Every  time.Duration // 0: not periodically
}

// ParseOccasions reads the text form in specs and options: each-turn, each-commit or a time such as 10m,
// or several with commas. Empty: never.
func ParseOccasions(text string) (o Occasions, err error) {
	if text == "" {
		return o, nil
	}
	words := strings.Split(text, ",")
	for _, w := range words {
		switch w {
		case EachTurn:
			o.Turn = true
		case EachCommit:
			o.Commit = true
		default:
			every, err := time.ParseDuration(w)
			if err != nil || o.Every > 0 {
				return Occasions{}, Errorf(ErrUsage, "%q does not say when checkpoints are made", text).
					WithHint("say %s, %s or a time such as 10m, or several with commas", EachTurn, EachCommit)
			}
			if every < minCheckpointTime {
				return Occasions{}, Errorf(ErrUsage, "a checkpoint every %s is too often", w).WithHint("say %s or more", minCheckpointTime)
			}
			o.Every = every
		}
	}
	slices.Sort(words)
	if len(slices.Compact(words)) < len(words) {
		return Occasions{}, Errorf(ErrUsage, "%q says the same twice", text)
	}
	return o, nil
}

// String formats the occasions as ParseOccasions reads them.
func (o Occasions) String() string {
	var words []string
	if o.Turn {
		words = append(words, EachTurn)
	}
	if o.Commit {
		words = append(words, EachCommit)
	}
	if o.Every > 0 {
		words = append(words, o.Every.String())
	}
	return strings.Join(words, ",")
}
