package merge

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/linediff"
)

// This file merges texts that both sides have changed.

// MaxText is the largest text that is merged line by line, in bytes. maxTexts bounds the bytes
// read of all texts, base and both sides together, because the sandbox controls their number.
// Beyond it, texts that both sides changed are in conflict.
const (
	MaxText  = 1 << 20
	maxTexts = 256 << 20
)

// binaryHead is how far git looks for a zero byte, by which it recognizes a file that is not
// text.
const binaryHead = 8000

// Text is a file that is not binary.
type Text struct {
	Data string
	Mode uint32 // of its inode
}

// NewText returns the text of a file's bytes; nil if they are not text.
func NewText(data []byte, mode uint32) *Text {
	if len(data) > MaxText || bytes.IndexByte(data[:min(len(data), binaryHead)], 0) >= 0 {
		return nil
	}
	return &Text{string(data), mode}
}

// mergeText returns the merge of both sides of a file; nil if they are in conflict. They are in
// conflict if anything but lines differs: further names, another mode, other attributes.
func (m *merger) mergeText(at string) (*manifest.Entry, error) {
	o, t := m.ours[at], m.theirs[at]
	if !m.isText(o) || !m.isText(t) || o.Mode != t.Mode || !slices.Equal(telling(o.Attrs), telling(t.Attrs)) {
		return nil, nil
	}
	was, err := m.baseText(at)
	if was == nil || err != nil || was.Mode != o.Mode {
		return nil, err
	}
	mine, err := m.readText(o)
	if mine == nil || err != nil {
		return nil, err
	}
	other, err := m.readText(t)
	if other == nil || err != nil {
		return nil, err
	}
	both, ok := linediff.Merge(was.Data, mine.Data, other.Data)
	switch {
	case !ok:
		return nil, nil
	case both == mine.Data:
		return o, nil
	case both == other.Data:
		return t, nil
	}
	e := *o
	e.Size, e.Modified, e.Content, e.Seen = int64(len(both)), time.Now().UnixNano(), manifest.Content{}, manifest.Seen{Fresh: true}
	m.texts[at] = both
	return &e, nil
}

// isText reports whether an entry may be a text, with one name.
func (m *merger) isText(e *manifest.Entry) bool {
	if m.linked == nil {
		m.linked = map[string]bool{}
		for _, s := range []side{m.base, m.ours, m.theirs} {
			for _, e := range s {
				if e.Same != "" {
					m.linked[e.Same] = true
				}
			}
		}
	}
	return e != nil && e.HasData() && e.Size <= MaxText && !m.linked[e.Path]
}

// baseText returns the text in the common base; nil if it is not text.
func (m *merger) baseText(at string) (*Text, error) {
	if e := m.base[at]; e != nil {
		if !m.isText(e) || !slices.Equal(telling(e.Attrs), telling(m.ours[at].Attrs)) {
			return nil, nil
		}
		return m.readText(e)
	}
	if len(telling(m.ours[at].Attrs)) > 0 {
		return nil, nil
	}
	t, err := m.below(at)
	if t != nil {
		*m.room -= int64(len(t.Data))
	}
	return t, err
}

// readText reads the kept contents of a file; nil if they are not text, or exceed the remaining room.
func (m *merger) readText(e *manifest.Entry) (*Text, error) {
	if *m.room -= e.Size; *m.room < 0 {
		return nil, nil
	}
	if err := m.packs.Verify(e); err != nil {
		return nil, err
	}
	data := make([]byte, e.Size)
	at := e.Content.Offset
	for _, p := range e.Content.Pieces {
		f, err := m.packs.Open(e.Content.Pack)
		if err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(io.NewSectionReader(f, at, p.Length), data[p.At:p.At+p.Length]); err != nil {
			return nil, fmt.Errorf("read %q: %w", e.Path, err)
		}
		at += p.Length
	}
	return NewText(data, e.Mode), nil
}

// addTexts adds the texts of a tree that still have to be kept.
func (m *merger) addTexts(out *Merged, tree manifest.Tree) {
	for i := range tree.Entries {
		e := &tree.Entries[i]
		text, is := m.texts[e.Path]
		if !is || m.conflicts[e.Path] {
			continue
		}
		out.Texts = append(out.Texts, Change{Tree: tree.Name, Path: e.Path, Kind: Modified})
		out.New = append(out.New, NewContent{e, text})
	}
}
