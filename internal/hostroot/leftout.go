package hostroot

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
)

// version changes whenever snapshots of older code must not be used any more.
const version = "3"

// Bounds of the copy of /etc. A larger file is left out. Once the total is reached, the rest is left
// out.
const (
	maxFile  = 4 << 20
	maxTotal = 64 << 20
)

// leftOutNames are the names that never enter the copy of /etc, although all users of the host
// may read them. A pattern is a path below /etc whose last element may contain '*', or "**/" and
// a name that is left out at any depth. Upper and lower case are the same.
var leftOutNames = []struct{ why, patterns string }{
	{"written anew for each sandbox", "passwd group hosts hostname resolv.conf machine-id nsswitch.conf mtab"},
	{"passwords and their owners", "passwd* group-* group.* shadow* gshadow* subuid* subgid* master.passwd tcb security/opasswd .pwd.lock opie* skeykeys"},
	{"who may become whom on the host", "sudoers* sudo.conf sudo_logsrvd.conf sudo-ldap.conf doas.conf doas.d polkit-1"},
	{"keys, whatever they are for", "**/*.key **/*.keytab **/*private*.pem **/*privkey*.pem **/*-key.pem **/*_key.pem **/*.p12 **/*.pfx **/*.jks **/*.kdbx **/*.psk **/*.ppk **/id_rsa* **/id_dsa* **/id_ecdsa* **/id_ed25519* **/private **/gnupg **/.gnupg **/.ssh"},
	{"passwords by custom", "**/.netrc **/netrc **/.pgpass **/.my.cnf **/.env **/*.env **/.htpasswd **/*htpasswd* **/*htdigest* **/secret **/secrets **/*.secret **/*.secrets **/password **/passwords **/*.password **/*.passwords **/*_password **/*passwd.client **/sasl_passwd* **/credentials **/*.credentials **/*.cred **/.git-credentials **/.dockercfg **/auth.json"},
	{"history of /etc, with everything that ever was in it", "**/.git **/.svn **/.hg **/.bzr .etckeeper **/*.dpkg-* **/*.ucf-* **/*.rpmsave **/*.rpmnew **/*.rpmorig **/*.pacsave **/*.bak **/*.orig **/*.old **/*~"},
	{"how to get into the host, and its identity there", "ssh/ssh_host_* ssh/sshd_config* ssh/authorized_keys* dropbear krb5.keytab krb5.conf.d/*cache* ipa sssd samba tls pki/tls/private pki/entitlement pki/consumer rhsm hostid adjtime nvme iscsi"},
	{"links to a file whose owner ssh rejects inside", "ssh/ssh_config.d/20-systemd-ssh-proxy.conf"},
	{"private halves of certificates", "ssl/private letsencrypt acme* certbot lego"},
	{"login sessions of the host: a usual place for tokens and proxies", "environment environment.d"},
	{"Wi-Fi, dial-up and VPN secrets, and the host's network", "NetworkManager netplan network networkd-dispatcher sysconfig wpa_supplicant iwd connman hostapd openvpn wireguard ppp chatscripts peers ipsec* strongswan* swanctl racoon vpnc openconnect tinc fastd nebula tailscale zerotier-one cloudflared ngrok* freeradius raddb"},
	{"the host's firewall", "nftables.conf nftables iptables ufw firewalld fail2ban crowdsec hosts.allow hosts.deny"},
	{"containers, clusters and clouds the host belongs to", "docker containerd crio kubernetes rancher k0s k3s microk8s cni etcd nomad* consul* vault* boundary* libvirt lxc lxd incus pve cloud waagent* google* boto* aws amazon azure gcloud ceph glusterfs drbd* corosync pacemaker hosts.equiv"},
	{"agents of fleet management", "salt puppet* chef ansible cfengine* teleport* osquery wazuh* ossec* falcon* datadog* newrelic* zabbix* nagios munin icinga* telegraf* prometheus grafana* influxdb* elastic* kibana* logstash* filebeat* metricbeat* fluent* td-agent* rsyslog* vector* alloy otelcol* snmp"},
	{"services the host runs, often with passwords", "mysql mariadb my.cnf* postgresql redis* mongod* rabbitmq couchdb memcached* openldap ldap ldap.conf ldap.secret nslcd.conf pam_ldap* libnss* apache2 httpd nginx lighttpd caddy traefik haproxy squid* pgbouncer* gitlab* gitea forgejo jenkins* buildkite* actions-runner postfix exim* dovecot sendmail mail msmtprc ssmtp nullmailer sasldb2 proftpd vsftpd* pure-ftpd bind named* unbound powerdns pdns dnsmasq* turnserver* asterisk cups nut minio minidlna* bacula bareos borg* restic rclone* duplicity davfs2 bluetooth"},
	{"tokens of package sources", "apt/auth.conf apt/auth.conf.d yum/vars dnf/vars zypp/credentials.d"},
	{"disks of the host", "fstab crypttab cryptsetup* lvm mdadm* multipath* exports* autofs* auto.* auto_* luks zfs blkid* initramfs-tools dracut* mkinitcpio* grub* default/grub* default/cryptdisks"},
	{"units, jobs and devices of the host: nothing in a sandbox starts them", "systemd udev cron* anacrontab at.allow at.deny modprobe.d modules* tmpfiles.d sysctl* audit selinux apparmor* default/docker default/kubelet default/*agent* brltty brlapi*"},
	{"Bothy's own", "bothy"},
}

// secretMarks are texts that reveal a secret, whatever the file's name is.
var secretMarks = []string{
	"PRIVATE KEY-----", "PuTTY-User-Key-File",
	":_authToken", ":_auth=", ":_password=", "\n_auth=", "\n_password=",
	"aws_secret_access_key", "AWS_SECRET_ACCESS_KEY",
}

// tokenPrefixes begin the tokens of well-known services. At least tokenLength
// letters, digits, '-' or '_' follow.
var tokenPrefixes = []string{
	"ghp_", "gho_", "ghu_", "ghs_", "github_pat_", "glpat-", "npm_", "pypi-", "dckr_pat_",
	"xoxb-", "xoxp-", "sk-ant-", "sk-proj-", "hvs.", "AKIA", "AIza",
}

const tokenLength = 16

// rules are the patterns above in a form that costs little for each name.
type rules struct {
	local    map[string]*names // by directory, "" is /etc itself
	anywhere names
	digest   []byte
}

// names is a set of file names, some of them with '*'.
type names struct {
	exact map[string]bool
	globs [][]string // the pieces between the stars
}

// leftOut returns the rules, built once.
var leftOut = sync.OnceValue(func() *rules {
	r := &rules{local: map[string]*names{}}
	sum := sha256.New()
	sum.Write([]byte(version))
	for _, group := range leftOutNames {
		sum.Write([]byte(group.patterns))
		for p := range strings.FieldsSeq(strings.ToLower(group.patterns)) {
			r.addRule(p)
		}
	}
	for _, m := range slices.Concat(secretMarks, tokenPrefixes) {
		sum.Write([]byte(m))
	}
	r.digest = sum.Sum(nil)
	return r
})

func (r *rules) addRule(pattern string) {
	if name, ok := strings.CutPrefix(pattern, "**/"); ok {
		r.anywhere.addPattern(name)
		return
	}
	i := strings.LastIndexByte(pattern, '/')
	dir := pattern[:max(i, 0)]
	if r.local[dir] == nil {
		r.local[dir] = &names{}
	}
	r.local[dir].addPattern(pattern[i+1:])
}

// forDir returns the rules for one directory besides those for all.
func (r *rules) forDir(rel string) *names { return r.local[strings.ToLower(rel)] }

// omits reports whether a name is left out; local comes from forDir.
func (r *rules) omits(local *names, name string) bool {
	name = strings.ToLower(name)
	return r.anywhere.matches(name) || local != nil && local.matches(name)
}

func (n *names) addPattern(pattern string) {
	if strings.Contains(pattern, "*") {
		n.globs = append(n.globs, strings.Split(pattern, "*"))
		return
	}
	if n.exact == nil {
		n.exact = map[string]bool{}
	}
	n.exact[pattern] = true
}

func (n *names) matches(name string) bool {
	return n.exact[name] || slices.ContainsFunc(n.globs, func(pieces []string) bool { return matchGlob(pieces, name) })
}

// matchGlob matches a name with the pieces of a pattern between its stars.
func matchGlob(pieces []string, name string) bool {
	first, last := pieces[0], pieces[len(pieces)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, p := range pieces[1 : len(pieces)-1] {
		_, rest, ok := strings.Cut(name, p)
		if !ok {
			return false
		}
		name = rest
	}
	return true
}

// secretInside reports whether the content of a file looks like a secret.
func secretInside(b []byte) bool {
	return slices.ContainsFunc(secretMarks, func(mark string) bool { return bytes.Contains(b, []byte(mark)) }) ||
		slices.ContainsFunc(tokenPrefixes, func(prefix string) bool { return hasToken(b, []byte(prefix)) }) ||
		passwordInURL(b)
}

// hasToken looks for the prefix at the beginning of a word long enough to be a
// token.
func hasToken(b, prefix []byte) bool {
	for {
		i := bytes.Index(b, prefix)
		if i < 0 {
			return false
		}
		word := i == 0 || !tokenByte(b[i-1])
		b = b[i+len(prefix):]
		n := 0
		for n < len(b) && n < tokenLength && tokenByte(b[n]) {
			n++
		}
		if word && n == tokenLength {
			return true
		}
	}
}

func tokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// passwordInURL looks for scheme://user:password@host.
func passwordInURL(b []byte) bool {
	for {
		_, rest, ok := bytes.Cut(b, []byte("://"))
		if !ok {
			return false
		}
		b = rest
		authority := rest[:min(len(rest), 512)]
		if end := bytes.IndexAny(authority, "/ \t\r\n\"'<>`"); end >= 0 {
			authority = authority[:end]
		}
		user, _, ok := bytes.Cut(authority, []byte("@"))
		if !ok {
			continue
		}
		if _, password, ok := bytes.Cut(user, []byte(":")); ok && len(password) > 0 {
			return true
		}
	}
}
