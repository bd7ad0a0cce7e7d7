package dns

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/net/dns/dnsmessage"
)

// query is the query of a message.
type query struct {
	header   dnsmessage.Header
	question dnsmessage.Question
	edns     bool
	size     int // the answer may have, in a datagram
}

// parse reads a message. Without a query it deserves no answer; with a code other than success it
// deserves only that code.
func parse(message []byte) (*query, dnsmessage.RCode) {
	var p dnsmessage.Parser
	h, err := p.Start(message)
	if err != nil || h.Response {
		return nil, 0 // an answer to an answer could go on forever
	}
	q := &query{header: h, size: plainSize}
	questions, err := p.AllQuestions()
	switch {
	case err != nil:
		return q, dnsmessage.RCodeFormatError
	case h.OpCode != 0:
		return q, dnsmessage.RCodeNotImplemented
	case len(questions) != 1 || h.Truncated:
		return q, dnsmessage.RCodeFormatError
	}
	q.question = questions[0]
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return q, dnsmessage.RCodeFormatError
	}
	return q, q.additionals(&p)
}

// badVersion is the code for an unknown version of EDNS (BADVERS); its upper bits travel in the OPT
// record.
const badVersion = dnsmessage.RCode(16)

// additionals looks for the OPT record.
func (q *query) additionals(p *dnsmessage.Parser) dnsmessage.RCode {
	for {
		h, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return dnsmessage.RCodeSuccess
		}
		if err != nil || h.Type == dnsmessage.TypeOPT && q.edns {
			return dnsmessage.RCodeFormatError
		}
		if h.Type == dnsmessage.TypeOPT {
			q.edns = true
			q.size = min(max(int(h.Class), plainSize), ednsSize)
			if h.TTL>>16&0xff != 0 {
				return badVersion
			}
		}
		if p.SkipAdditional() != nil {
			return dnsmessage.RCodeFormatError
		}
	}
}

// reply is an answer being made.
type reply struct {
	query  *query
	rcode  dnsmessage.RCode
	v4, v6 netip.Addr // of an A or AAAA question
	target string     // of a PTR question
	why    string     // the reason of a refusal, for people
}

// addresses sets the addresses of an allowed name. Questions for other types get an answer without
// records: the name exists, but has no records of these types.
func (r *reply) addresses(v4, v6 netip.Addr) { r.v4, r.v6 = v4, v6 }

func (r *reply) pointer(name string) { r.target = name }

// packAnswer writes the answer. It marks an answer that does not fit as cut off.
func (r *reply) packAnswer(overTCP bool) []byte {
	b, err := r.buildAnswer(true)
	if err == nil && (overTCP || len(b) <= r.query.size) {
		return b
	}
	r.why = ""
	if b, err = r.buildAnswer(false); err != nil {
		return nil
	}
	return b
}

func (r *reply) buildAnswer(whole bool) ([]byte, error) {
	h := r.query.header
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{
		ID: h.ID, Response: true, OpCode: h.OpCode, Authoritative: false, Truncated: !whole,
		RecursionDesired: h.RecursionDesired, RecursionAvailable: true, CheckingDisabled: h.CheckingDisabled,
		RCode: r.rcode & 0xf,
	})
	b.EnableCompression()
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if r.query.question.Name.Length > 0 {
		if err := b.Question(r.query.question); err != nil {
			return nil, err
		}
	}
	if whole {
		if err := r.records(&b); err != nil {
			return nil, err
		}
	}
	if r.query.edns {
		if err := r.optRecord(&b); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

func (r *reply) records(b *dnsmessage.Builder) error {
	if err := b.StartAnswers(); err != nil {
		return err
	}
	head := dnsmessage.ResourceHeader{Name: r.query.question.Name, Class: dnsmessage.ClassINET, TTL: ttl}
	switch {
	case r.target != "":
		name, err := dnsmessage.NewName(r.target + ".")
		if err != nil {
			return err
		}
		return b.PTRResource(head, dnsmessage.PTRResource{PTR: name})
	case r.query.question.Type == dnsmessage.TypeA && r.v4.IsValid():
		return b.AResource(head, dnsmessage.AResource{A: r.v4.As4()})
	case r.query.question.Type == dnsmessage.TypeAAAA && r.v6.IsValid():
		return b.AAAAResource(head, dnsmessage.AAAAResource{AAAA: r.v6.As16()})
	}
	return r.negative(b)
}

// negative sets how long the absence of records may be cached.
func (r *reply) negative(b *dnsmessage.Builder) error {
	if r.rcode != dnsmessage.RCodeSuccess && r.rcode != dnsmessage.RCodeNameError {
		return nil
	}
	if err := b.StartAuthorities(); err != nil {
		return err
	}
	root, server := dnsmessage.MustNewName("."), dnsmessage.MustNewName("policy.bothy.")
	return b.SOAResource(
		dnsmessage.ResourceHeader{Name: root, Class: dnsmessage.ClassINET, TTL: negativeTTL},
		dnsmessage.SOAResource{NS: server, MBox: server, Serial: 1, Refresh: 1, Retry: 1, Expire: 1, MinTTL: negativeTTL},
	)
}

// Extended DNS errors (RFC 8914): an option of the OPT record with a code and a
// text.
const (
	extendedError = 15
	blocked       = 15
)

func (r *reply) optRecord(b *dnsmessage.Builder) error {
	if err := b.StartAdditionals(); err != nil {
		return err
	}
	var head dnsmessage.ResourceHeader
	if err := head.SetEDNS0(ednsSize, r.rcode, false); err != nil {
		return err
	}
	var body dnsmessage.OPTResource
	if r.why != "" {
		text := binary.BigEndian.AppendUint16(nil, blocked)
		body.Options = append(body.Options, dnsmessage.Option{Code: extendedError, Data: append(text, r.why...)})
	}
	return b.OPTResource(head, body)
}
