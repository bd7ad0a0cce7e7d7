// Package once keeps the answers to requests that name an idempotency key, so that a client that lost an
// answer may ask again without a second effect. The answers are files: another server, and a later one, give
// the same.
package once

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Kept is how long an answer is repeated.
const Kept = 24 * time.Hour

// Bounds of a key, and of the number of answers.
const (
	MaxKey     = 200
	maxRecords = 10_000
)

// Answer is an answer to repeat.
type Answer struct {
	Status int    `json:"status"`
	Body   []byte `json:"body"`
}

// record is a request in its file.
type record struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	Request string    `json:"request"` // a hash of its body
	Answer  *Answer   `json:"answer"`  // null: it has begun
}

// Records holds the answers of a state directory.
type Records struct {
	Dir string
	Now func() time.Time
}

// Request identifies a request: its caller, its target, its key, and its body.
type Request struct {
	Caller, Target, Key string
	Body                []byte
}

// Do answers a request: by the recorded answer, or by do, which runs at most once for a key. A request whose
// first try was cut off before it had an answer gets an error of class [spec.ErrMayHaveRun]. Concurrent
// requests with one key wait for the first.
func (r *Records) Do(ctx context.Context, q Request, do func() Answer) (a Answer, repeated bool, err error) {
	if q.Key == "" || len(q.Key) > MaxKey || strings.ContainsFunc(q.Key, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return a, false, spec.Errorf(spec.ErrUsage, "an Idempotency-Key has 1 to %d visible ASCII characters", MaxKey)
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return a, false, err
	}
	path := filepath.Join(r.Dir, digest([]byte(q.Caller+"\x00"+q.Target+"\x00"+q.Key))+".json")
	lock, err := awaitCurrent(ctx, strings.TrimSuffix(path, "json")+"lock")
	if err != nil {
		return a, false, err
	}
	defer lock.Unlock()
	old, err := r.readRecord(path)
	if err != nil {
		return a, false, err
	}
	body := digest(q.Body)
	switch {
	case old == nil:
	case old.Request != body:
		return a, false, spec.Errorf(spec.ErrConflict, "this Idempotency-Key was used for another request").WithHint("choose a new key for each request")
	case old.Answer == nil:
		return a, false, spec.Errorf(spec.ErrMayHaveRun, "the first request with this Idempotency-Key was cut off, and may have had an effect").
			WithHint("look at the state, then send the request with a new key")
	default:
		return *old.Answer, true, nil
	}
	r.sweepOld()
	begun := record{Version: spec.Version, At: r.Now().UTC(), Request: body}
	if err := store.WriteJSON(path, begun); err != nil {
		return a, false, err
	}
	a = do()
	begun.Answer = &a
	if err := store.WriteJSON(path, begun); err != nil {
		return a, false, &spec.Error{Op: "record the answer", Err: err}
	}
	return a, false, nil
}

// readRecord returns the record at a path; nil if it does not exist or is too old.
func (r *Records) readRecord(path string) (*record, error) {
	var old record
	err := store.ReadJSON(path, &old)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case r.Now().Sub(old.At) > Kept:
		return nil, nil
	}
	return &old, nil
}

// awaitCurrent waits for a lock whose file was not removed meanwhile.
func awaitCurrent(ctx context.Context, path string) (*store.Lock, error) {
	for {
		lock, err := store.AwaitLock(ctx, path)
		if err != nil {
			return nil, err
		}
		held, herr := lock.File().Stat()
		there, terr := os.Stat(path)
		if herr == nil && terr == nil && os.SameFile(held, there) {
			return lock, nil
		}
		lock.Unlock()
	}
}

// sweepOdds is how many requests share one look for old records.
const sweepOdds = 32

// sweepOld removes records that are too old, and beyond the largest number the oldest.
func (r *Records) sweepOld() {
	if rand.N(sweepOdds) > 0 {
		return
	}
	locks, err := filepath.Glob(filepath.Join(r.Dir, "*.lock"))
	if err != nil {
		return
	}
	made := map[string]time.Time{}
	for _, path := range locks {
		if info, err := os.Lstat(path); err == nil {
			made[path] = info.ModTime()
		}
	}
	slices.SortFunc(locks, func(a, b string) int { return made[a].Compare(made[b]) })
	for i, path := range locks {
		if len(locks)-i <= maxRecords && r.Now().Sub(made[path]) <= Kept {
			return
		}
		lock, err := store.TryLockThere(path)
		if err != nil { // in use
			continue
		}
		_ = os.Remove(strings.TrimSuffix(path, "lock") + "json")
		_ = os.Remove(path)
		lock.Unlock()
	}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
