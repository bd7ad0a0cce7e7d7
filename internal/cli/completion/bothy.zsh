#compdef bothy
# zsh completion for bothy: what follows, bothy completes itself.

_bothy() {
    local -a before answer described spacing
    local line
    ((CURRENT > 2)) && before=("${(@Q)words[2,CURRENT-1]}")
    answer=("${(@f)$(command bothy __complete "${before[@]}" "${(Q)PREFIX}" 2>/dev/null)}")
    [[ $answer[-1] == :<-> ]] || return 1
    local -i directive=${answer[-1]#:}
    answer[-1]=()

    # The value of --flag=value is answered alone.
    [[ $PREFIX == --*=* ]] && compset -P 1 '*='
    for line in $answer; do
        line=${line//:/\\:}
        described+=("${line/$'\t'/:}")
    done
    if (($#described)); then
        ((directive & 2)) && spacing=(-S '')
        _describe 'bothy' described "${spacing[@]}"
    elif ((!(directive & 5))); then
        _files
    fi
}

# Autoloaded, this file is the function; sourced, it only tells of it.
if [[ $funcstack[1] == _bothy ]]; then
    _bothy "$@"
else
    compdef _bothy bothy
fi
