package grpctest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding/gzip"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Client makes calls to a Server.
type Client struct {
	pb.TestServiceClient
	conn *grpc.ClientConn
}

// Dial returns a client of the server at HOST:PORT. It trusts the authorities of its TLS
// configuration, and connects by dial; nil means the usual way for both. A token, if any, goes with
// each call as a program would send its own.
func Dial(target string, trust *tls.Config, dial func(context.Context, string) (net.Conn, error), token string) (*Client, error) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(credentials.NewTLS(trust)), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
	}
	if dial != nil {
		options = append(options, grpc.WithContextDialer(dial))
	}
	if token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(token)))
	}
	conn, err := grpc.NewClient("passthrough:///"+target, options...)
	if err != nil {
		return nil, err
	}
	return &Client{pb.NewTestServiceClient(conn), conn}, nil
}

// Close ends the client and its calls.
func (c *Client) Close() { _ = c.conn.Close() }

// bearer is a token that goes with each call.
type bearer string

// GetRequestMetadata turns the token into credentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity keeps the token out of clear text.
func (bearer) RequireTransportSecurity() bool { return true }

// Call is one thing that a client does. Do returns how the answer differs from the server's.
type Call struct {
	Name string
	Do   func(context.Context, *Client) error
	// GivesUp is how many calls the server sees cancelled.
	GivesUp int
	// Unseen reports that the server has no method for it.
	Unseen bool
	// Packed reports that its messages are compressed.
	Packed bool
}

// Calls are the four kinds of calls, and their failures.
var Calls = []Call{
	{Name: "empty", Do: empty},
	{Name: "unary", Do: unary(100)},
	{Name: "large messages", Do: unary(MaxMessage - 1<<10)},
	{Name: "compressed", Do: unary(1<<20, grpc.UseCompressor(gzip.Name)), Packed: true},
	{Name: "metadata", Do: echoed},
	{Name: "server stream", Do: serverStream},
	{Name: "client stream", Do: clientStream},
	{Name: "both stream", Do: pingPong},
	{Name: "many at once", Do: manyAtOnce},
	{Name: "status with details", Do: details},
	{Name: "status after messages", Do: lateStatus},
	{Name: "no such method", Do: unimplemented, Unseen: true},
	{Name: "deadline", Do: deadline, GivesUp: 1},
	{Name: "cancelled", Do: cancelled, GivesUp: 1},
}

func empty(ctx context.Context, c *Client) error {
	_, err := c.EmptyCall(ctx, &pb.Empty{})
	return err
}

func unary(size int, options ...grpc.CallOption) func(context.Context, *Client) error {
	return func(ctx context.Context, c *Client) error {
		sent := bytes.Repeat([]byte("0123456789abcdef"), size/16)
		got, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: &pb.Payload{Body: sent}}, options...)
		if err != nil {
			return err
		}
		if !bytes.Equal(got.GetPayload().GetBody(), sent) {
			return fmt.Errorf("of %d bytes %d came back, or others", len(sent), len(got.GetPayload().GetBody()))
		}
		return nil
	}
}

func echoed(ctx context.Context, c *Client) error {
	var header, trailer metadata.MD
	ctx = metadata.AppendToOutgoingContext(ctx, askEcho, "one", askEcho, "two")
	if _, err := c.UnaryCall(ctx, &pb.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
		return err
	}
	h, t := header.Get(askEcho), trailer.Get(echoBin)
	if !slices.Equal(h[:min(2, len(h))], []string{"one", "two"}) || !slices.Equal(t[:min(2, len(t))], []string{"one\x00\xff", "two\x00\xff"}) {
		return fmt.Errorf("the header is %q, the trailer %q", header, trailer)
	}
	return nil
}

func serverStream(ctx context.Context, c *Client) error {
	sizes := []int{1, 100_000, 0, 3, 1 << 20}
	r := &pb.StreamingOutputCallRequest{}
	for _, n := range sizes {
		r.ResponseParameters = append(r.ResponseParameters, &pb.ResponseParameters{Size: int32(n)})
	}
	s, err := c.StreamingOutputCall(ctx, r)
	if err != nil {
		return err
	}
	for i, n := range sizes {
		m, err := s.Recv()
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if len(m.GetPayload().GetBody()) != n {
			return fmt.Errorf("message %d has %d bytes", i, len(m.GetPayload().GetBody()))
		}
	}
	return ended(s)
}

func clientStream(ctx context.Context, c *Client) error {
	s, err := c.StreamingInputCall(ctx)
	if err != nil {
		return err
	}
	const messages, size = 50, 30_000
	for range messages {
		if err := s.Send(&pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, size)}}); err != nil {
			return err
		}
	}
	got, err := s.CloseAndRecv()
	if err == nil && got.GetAggregatedPayloadSize() != messages*size {
		err = fmt.Errorf("the server counted %d bytes", got.GetAggregatedPayloadSize())
	}
	return err
}

// pingPong sends each message only when the one before came back: no proxy may wait for more.
func pingPong(ctx context.Context, c *Client) error {
	s, err := c.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	for i := range 20 {
		if err := swap(s, fmt.Sprint("message ", i)); err != nil {
			return err
		}
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	return ended(s)
}

type duplex = grpc.BidiStreamingClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]

func swap(s duplex, say string) error {
	if err := s.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte(say)}}); err != nil {
		return err
	}
	got, err := s.Recv()
	if err == nil && string(got.GetPayload().GetBody()) != say {
		err = fmt.Errorf("%q came back for %q", got.GetPayload().GetBody(), say)
	}
	return err
}

// ended checks that a stream has ended properly.
func ended[T any](s grpc.ServerStreamingClient[T]) error {
	_, err := s.Recv()
	if err == nil {
		return errors.New("there is a message too many")
	}
	if err != io.EOF {
		return fmt.Errorf("at the end: %w", err)
	}
	return nil
}

// manyAtOnce opens more streams than one connection may have.
func manyAtOnce(ctx context.Context, c *Client) error {
	const calls = 250
	errs := make([]error, calls)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() { errs[i] = unary(1<<10)(ctx, c) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func details(ctx context.Context, c *Client) error {
	const why = "über 100 % of it\nfailed"
	ctx = metadata.AppendToOutgoingContext(ctx, askFail, "it failed: 100%")
	_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
	if err := is(err, codes.FailedPrecondition, "it failed: 100%"); err != nil {
		return err
	}
	list := status.Convert(err).Details()
	if len(list) != 1 {
		return fmt.Errorf("it has the details %v", list)
	}
	if p, ok := list[0].(*pb.Payload); !ok || string(p.GetBody()) != "it failed: 100%" {
		return fmt.Errorf("it has the details %v", list)
	}
	// Text that a header can hold only when encoded.
	s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{ResponseStatus: &pb.EchoStatus{Code: int32(codes.Aborted), Message: why}})
	if err != nil {
		return err
	}
	_, err = s.Recv()
	return is(err, codes.Aborted, why)
}

func lateStatus(ctx context.Context, c *Client) error {
	s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{
		ResponseParameters: []*pb.ResponseParameters{{Size: 10}}, ResponseStatus: &pb.EchoStatus{Code: int32(codes.DataLoss), Message: "too bad"},
	})
	if err != nil {
		return err
	}
	if _, err := s.Recv(); err != nil {
		return fmt.Errorf("the message before it: %w", err)
	}
	_, err = s.Recv()
	return is(err, codes.DataLoss, "too bad")
}

// unimplemented is an error before anything else: each time, it comes in the header of an answer
// without a body.
func unimplemented(ctx context.Context, c *Client) error {
	for range 20 {
		_, err := c.UnimplementedCall(ctx, &pb.Empty{})
		if err := is(err, codes.Unimplemented, ""); err != nil {
			return err
		}
	}
	return nil
}

// deadline lets a waiting call run into its deadline. The client sends nothing: both sides know the
// deadline. If the server has not received the call by then, deadline makes another one.
func deadline(ctx context.Context, c *Client) error {
	for patience := 500 * time.Millisecond; ; patience *= 2 {
		began, err := late(ctx, c, patience)
		if err != nil || began {
			return err
		}
	}
}

func late(ctx context.Context, c *Client, patience time.Duration) (began bool, err error) {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, askWait, "yes"), patience)
	defer cancel()
	s, err := c.FullDuplexCall(ctx)
	if err == nil {
		err = swap(s, "hello")
	}
	if began = err == nil; began {
		_, err = s.Recv()
	}
	return began, is(err, codes.DeadlineExceeded, "")
}

func cancelled(ctx context.Context, c *Client) error {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, askWait, "yes"))
	defer cancel()
	s, err := c.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	if err := swap(s, "hello"); err != nil {
		return err
	}
	cancel()
	_, err = s.Recv()
	return is(err, codes.Canceled, "")
}

// is returns how an error differs from the expected one. The message is a part of the error's.
func is(err error, code codes.Code, message string) error {
	if st := status.Convert(err); err == nil || st.Code() != code || !strings.Contains(st.Message(), message) {
		return fmt.Errorf("it ended with %w, not with %s %q", err, code, message)
	}
	return nil
}

// Echo makes the server send back the client's authorization, and returns where it came back.
func Echo(ctx context.Context, c *Client) (header, trailer metadata.MD, message string, err error) {
	got, err := c.UnaryCall(ctx, &pb.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
	return header, trailer, got.GetUsername(), err
}
