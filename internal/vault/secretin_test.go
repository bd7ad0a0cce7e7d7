package vault

import "testing"

func TestSecretIn(t *testing.T) {
	for text, want := range map[string]bool{
		"https://mcp.zapier.com/api/mcp/s/NjA1Y2QxZWYtMzQ1Ni00/mcp": true,
		"F/feed/auth/0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0/npm":      true,
		"1a2B3c4D5e6F7g8H9i0J":                                               true,
		"ghp_0123456789abcdefghijABCDEFGHIJ012345":                           true,
		"https://mcp.example.com/v1/mcp":                                     false,
		"@modelcontextprotocol/server-filesystem":                            false,
		"artifactory/api/pypi/pypi-virtual/simple":                           false,
		"someone@example.com":                                                false,
		"":                                                                   false,
		"ctx7sk-12345678-1234-1234-1234-123456789012":                        true,
		"key=12345678-1234-1234-1234-123456789012&x":                         true,
		"https://mcp.example.com/u/hunterABCDEFGHIJKLMNOPQRSTUVWX/mcp":       true,
		"https://mcp.example.com/u/qXbTzRwLpKmNvGhJdFsAeYuC/mcp":             true,
		"https://mcp.example.com/ModelContextProtocolServer/HTTPGatewayAPIs": false,
		"/src/HowToMakeUseOfItInMyCompany":                                   true, // a false positive
		"/src/MyCompanyInternalModelServer":                                  false,
		"/home/me/IdeaProjects/AReallyLongProjectName":                       false,
		"/opt/CONTRIBUTIONGUIDELINESFOREVERYBODY":                            false,
		"internationalizationlibraryofmine":                                  false,
		"2024-11-05-1234-5678":                                               false,
	} {
		if SecretIn(text) != want {
			t.Errorf("%q: not %v", text, want)
		}
	}
}
