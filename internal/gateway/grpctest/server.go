// Package grpctest contains a gRPC server and its client's calls, to test proxies between the two.
// Both use the library that most programs use.
package grpctest

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // calls may be compressed
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Metadata by which a call controls the server.
const (
	askEcho = "x-echo"     // sent back in the header and, as bytes, in the trailer
	echoBin = "x-echo-bin" // sent back as bytes
	askWait = "x-wait"     // wait until the client cancels the call
	askFail = "x-fail"     // end with an error that has this message
)

// MaxMessage is the largest message that either side takes, in bytes.
const MaxMessage = 16 << 20

// Server answers the calls of Calls and records them.
type Server struct {
	pb.UnimplementedTestServiceServer
	grpc *grpc.Server

	mu      sync.Mutex
	methods []string // of each call, as it came
	tokens  []string // the authorization of the calls
	waiting int      // calls that still wait to be cancelled
	given   int      // calls that were cancelled
}

// Serve answers on a listener until Stop. The certificate is asked for as TLS
// wants it.
func Serve(l net.Listener, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *Server {
	s := &Server{}
	s.grpc = grpc.NewServer(
		grpc.Creds(credentials.NewTLS(&tls.Config{GetCertificate: certificate})),
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			s.note(ctx, info.FullMethod)
			return handle(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			s.note(ss.Context(), info.FullMethod)
			return handle(srv, ss)
		}),
	)
	pb.RegisterTestServiceServer(s.grpc, s)
	go func() { _ = s.grpc.Serve(l) }()
	return s
}

// Stop ends the server and all calls.
func (s *Server) Stop() { s.grpc.Stop() }

// Saw returns the methods and the authorizations of the calls since the last Saw.
func (s *Server) Saw() (methods, tokens []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	methods, tokens = s.methods, s.tokens
	s.methods, s.tokens = nil, nil
	return methods, tokens
}

// GivenUp returns how many calls the client cancelled, and how many still wait for that.
func (s *Server) GivenUp() (given, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given, s.waiting
}

func (s *Server) note(ctx context.Context, method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.methods = append(s.methods, method)
	s.tokens = append(s.tokens, metadata.ValueFromIncomingContext(ctx, "authorization")...)
}

// wait returns when the client has cancelled the call.
func (s *Server) wait(ctx context.Context) error {
	s.mu.Lock()
	s.waiting++
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
	s.given++
	return status.FromContextError(ctx.Err()).Err()
}

// echo sends metadata back, together with the received authorization.
func echo(ctx context.Context, header, trailer func(metadata.MD) error) error {
	values := append(metadata.ValueFromIncomingContext(ctx, askEcho), metadata.ValueFromIncomingContext(ctx, "authorization")...)
	if len(values) == 0 {
		return nil
	}
	h, t := metadata.MD{}, metadata.MD{}
	for _, v := range values {
		h.Append(askEcho, v)
		t.Append(echoBin, v+"\x00\xff")
	}
	return errors.Join(header(h), trailer(t))
}

// EmptyCall answers nothing with nothing.
func (s *Server) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) { return &pb.Empty{}, nil }

// UnaryCall sends its request back, or does as its metadata says.
func (s *Server) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	header := func(h metadata.MD) error { return grpc.SetHeader(ctx, h) }
	if err := echo(ctx, header, func(t metadata.MD) error { return grpc.SetTrailer(ctx, t) }); err != nil {
		return nil, err
	}
	if v := metadata.ValueFromIncomingContext(ctx, askFail); len(v) > 0 {
		st, err := status.New(codes.FailedPrecondition, v[0]).WithDetails(&pb.Payload{Body: []byte(v[0])})
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}
	if len(metadata.ValueFromIncomingContext(ctx, askWait)) > 0 {
		return nil, s.wait(ctx)
	}
	tokens := metadata.ValueFromIncomingContext(ctx, "authorization")
	answer := &pb.SimpleResponse{Payload: r.GetPayload()}
	if len(tokens) > 0 {
		answer.Username = tokens[0]
	}
	return answer, nil
}

// StreamingOutputCall sends as many messages as are asked for, of these sizes.
func (s *Server) StreamingOutputCall(r *pb.StreamingOutputCallRequest, out grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	for _, p := range r.GetResponseParameters() {
		if err := out.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, p.GetSize())}}); err != nil {
			return err
		}
	}
	if st := r.GetResponseStatus(); st != nil {
		return status.Error(codes.Code(st.GetCode()), st.GetMessage())
	}
	return nil
}

// StreamingInputCall counts the received bytes.
func (s *Server) StreamingInputCall(in grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
	sum := 0
	for {
		m, err := in.Recv()
		if err == io.EOF {
			return in.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: int32(sum)})
		}
		if err != nil {
			return err
		}
		sum += len(m.GetPayload().GetBody())
	}
}

// FullDuplexCall sends back each message when it arrives. If it has to wait, it does so after the
// first.
func (s *Server) FullDuplexCall(both grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	for {
		m, err := both.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := both.Send(&pb.StreamingOutputCallResponse{Payload: m.GetPayload()}); err != nil {
			return err
		}
		if len(metadata.ValueFromIncomingContext(both.Context(), askWait)) > 0 {
			return s.wait(both.Context())
		}
	}
}
