# bash completion for bothy: what follows, bothy completes itself.

_bothy() {
    COMPREPLY=()
    # Bash splits words at : and = too. What stands together on the line is one
    # word here, and what is behind the cursor counts for nothing.
    local line=$COMP_LINE words=() i piece together
    if [[ $line ]]; then
        line=${line:0:COMP_POINT}
    else
        line=${COMP_WORDS[*]:0:COMP_CWORD+1}
    fi
    for ((i = 0; i <= COMP_CWORD; i++)); do
        together=$line
        line=${line#"${line%%[![:space:]]*}"}
        ((i < COMP_CWORD)) && piece=${COMP_WORDS[i]} || piece=$line
        if [[ $i -gt 0 && $piece && $together == "$line" ]]; then
            words[-1]+=$piece
        else
            words+=("$piece")
        fi
        line=${line#"$piece"}
    done

    local answer
    mapfile -t answer < <(command bothy __complete "${words[@]:1}" 2>/dev/null)
    ((${#answer[@]})) && [[ ${answer[-1]} =~ ^:[0-9]+$ ]] || return 0
    local -i directive=${answer[-1]#:}
    unset 'answer[-1]'

    # The value of --flag=value is answered alone. Bash replaces only what
    # stands behind the last : or =.
    local word=${words[-1]} flag='' kept='' breaks=${COMP_WORDBREAKS//[^:=]/} value
    [[ $word == --*=* ]] && flag=${word%%=*}=
    [[ $breaks ]] && kept=${word%"${word##*[$breaks]}"}
    for value in "${answer[@]}"; do
        value=$flag${value%%$'\t'*}
        printf -v value %q "${value#"$kept"}"
        COMPREPLY+=("$value")
    done
    ((directive & 2)) && compopt -o nospace 2>/dev/null
    ((directive & 5)) && compopt +o default 2>/dev/null
    return 0
}

complete -o default -F _bothy bothy
