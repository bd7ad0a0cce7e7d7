package modelserver_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/bothy-dev/bothy/internal/modelscript"
	"github.com/bothy-dev/bothy/internal/modelserver"
)

// Example runs a model that is overloaded first, then writes a file, and is done. An agent would be
// given the server's URL as its base URL; here the request is written by hand.
func Example() {
	script, err := modelscript.Parse([]byte(`
conversations:
  - match: (?i)greeting
    turns:
      - text: I write it down.
        tools:
          - write_file: {path: hello.txt, content: "hello\n"}
        usage: {input: 1200, output: 40}
        fail: {status: 529, times: 1}
      - text: Done.
turns:
  - text: I only write greetings.
`))
	if err != nil {
		log.Fatal(err)
	}
	model, err := modelserver.New(script)
	if err != nil {
		log.Fatal(err)
	}
	model.RequireKey = "sk-real"
	server := httptest.NewServer(model)
	defer server.Close()

	for range 2 {
		const body = `{"model":"any","messages":[{"role":"user","content":"Write a greeting"}],"tools":[{"name":"Write"}]}`
		req, _ := http.NewRequest(http.MethodPost, server.URL+"/v1/messages", strings.NewReader(body))
		req.Header.Set("x-api-key", "sk-real")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(resp.StatusCode, strings.Contains(string(answer), `"file_path":"hello.txt"`))
	}
	for _, q := range model.Requests() {
		fmt.Println(q.N, q.Prompt, q.Conversation, q.Turn, q.Attempt, q.Outcome, q.Header.Get("x-api-key"))
	}
	// Output:
	// 529 false
	// 200 true
	// 1 Write a greeting 0 0 1 failed sk-real
	// 2 Write a greeting 0 0 2 answered sk-real
}
