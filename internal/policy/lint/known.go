package lint

// Facts that the linter uses for warnings. They decide nothing, and may be incomplete.

// sharedSuffixes are domains below which anyone can have a name: a pattern for them lets data out to
// everyone.
var sharedSuffixes = []string{
	"amazonaws.com", "s3.amazonaws.com", "awsapprunner.com", "cloudfront.net", "elasticbeanstalk.com",
	"azureedge.net", "azurefd.net", "azurewebsites.net", "blob.core.windows.net", "cloudapp.azure.com",
	"azurestaticapps.net", "web.core.windows.net", "trafficmanager.net",
	"appspot.com", "cloudfunctions.net", "firebaseapp.com", "firebaseio.com", "googleusercontent.com",
	"run.app", "web.app", "withgoogle.com",
	"github.io", "githubpreview.dev", "app.github.dev", "gitlab.io", "bitbucket.io", "codeberg.page",
	"workers.dev", "pages.dev", "r2.dev", "r2.cloudflarestorage.com", "trycloudflare.com",
	"fastly.net", "fastlylb.net", "global.ssl.fastly.net", "edgecompute.app", "akamaized.net", "akamaihd.net",
	"edgekey.net", "b-cdn.net", "cdn77.org",
	"herokuapp.com", "netlify.app", "vercel.app", "onrender.com", "fly.dev", "railway.app", "up.railway.app",
	"deno.dev", "glitch.me", "repl.co", "replit.app", "replit.dev", "surge.sh", "ondigitalocean.app",
	"digitaloceanspaces.com", "linodeobjects.com", "backblazeb2.com", "wasabisys.com", "supabase.co",
	"hf.space", "streamlit.app", "ngrok.io", "ngrok.app", "ngrok-free.app", "ngrok.dev", "loca.lt",
	"serveo.net", "localhost.run", "lhr.life", "tunnelmole.net", "pinggy.link", "devtunnels.ms",
	"duckdns.org", "nip.io", "sslip.io", "xip.io", "dyndns.org", "no-ip.org", "ddns.net",
	"blogspot.com", "wordpress.com", "wixsite.com", "myshopify.com", "notion.site", "webflow.io",
	"sharepoint.com", "slack.com", "zendesk.com", "atlassian.net", "myjetbrains.com",
	"co.uk", "org.uk", "ac.uk", "gov.uk", "com.au", "net.au", "org.au", "co.jp", "ne.jp", "or.jp",
	"co.kr", "co.in", "com.br", "com.cn", "com.mx", "com.tr", "com.tw", "co.nz", "co.za", "com.sg", "com.hk",
}

// frontingSuffixes are networks that serve many customers' names from the same servers and
// choose by the name inside TLS.
var frontingSuffixes = []string{
	"cloudfront.net", "fastly.net", "fastlylb.net", "azureedge.net", "azurefd.net", "akamaized.net",
	"akamaihd.net", "edgekey.net", "b-cdn.net", "cdn77.org", "workers.dev", "pages.dev", "appspot.com", "run.app",
}

// dropHosts accept data from anyone. They show it to anyone, or to any holder of an account there.
var dropHosts = []string{
	"pastebin.com", "paste.rs", "dpaste.com", "dpaste.org", "hastebin.com", "ix.io", "termbin.com", "0x0.st",
	"paste.ee", "rentry.co", "rentry.org", "ghostbin.com", "controlc.com", "privatebin.net", "justpaste.it",
	"gist.github.com", "gist.githubusercontent.com",
	"transfer.sh", "file.io", "gofile.io", "anonfiles.com", "catbox.moe", "litterbox.catbox.moe", "bashupload.com",
	"temp.sh", "tmpfiles.org", "uguu.se", "wetransfer.com", "filebin.net", "oshi.at", "send.vis.ee",
	"webhook.site", "requestbin.com", "pipedream.net", "requestcatcher.com", "beeceptor.com", "hookbin.com",
	"webhookinbox.com", "httpbin.org", "httpbin.com", "postman-echo.com", "ptsv3.com", "interact.sh", "oast.fun",
	"oast.pro", "oast.live", "oast.site", "oast.online", "oast.me", "burpcollaborator.net", "oastify.com",
	"dnslog.cn", "canarytokens.com", "ceye.io",
	"ngrok.com", "ngrok.io", "localtunnel.me", "serveo.net",
	"discord.com", "discordapp.com", "api.telegram.org", "hooks.slack.com", "ntfy.sh", "pushbullet.com", "maker.ifttt.com",
	"storage.googleapis.com", "s3.amazonaws.com", "drive.google.com", "docs.google.com", "www.dropbox.com",
	"api.dropboxapi.com", "content.dropboxapi.com", "graph.microsoft.com", "onedrive.live.com", "mega.nz",
	"firestore.googleapis.com", "jsonbin.io", "api.jsonbin.io", "kvdb.io", "huggingface.co",
}
